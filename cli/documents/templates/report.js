"use strict";
// Tables sort by a button in each head; the key of a cell is its number, or else its text.
(() => {
  const told = document.getElementById("told");

  const keyOf = (row, column) => {
    const cell = row.cells[column];
    return "key" in cell.dataset ? Number(cell.dataset.key) : cell.textContent;
  };

  // Numbers before texts, and what is missing at the end in either direction.
  const compare = (one, other, sign) => {
    if (one === "-" || other === "-") return (one === "-") - (other === "-");
    if (typeof one !== typeof other) return typeof one === "number" ? -1 : 1;
    if (typeof one === "number") return sign * (one - other);
    return sign * one.localeCompare(other, "en", { numeric: true });
  };

  const sort = (table, column, head) => {
    const falling = head.getAttribute("aria-sort") === "ascending";
    for (const one of head.parentNode.cells) one.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", falling ? "descending" : "ascending");
    const body = table.tBodies[0];
    const rows = Array.from(body.rows, (row, place) => ({ row, place, key: keyOf(row, column) }));
    rows.sort((a, b) => compare(a.key, b.key, falling ? -1 : 1) || a.place - b.place);
    body.append(...rows.map((one) => one.row));
    const name = head.textContent.trim();
    told.textContent = `Sorted by ${name}, ${falling ? "descending" : "ascending"}`;
  };

  for (const table of document.querySelectorAll("table[data-sortable]")) {
    Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => sort(table, column, head));
    });
  }

  // A link to what is inside a closed part opens it, and paper shows every part.
  const reveal = () => {
    const part = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const within = part && part.querySelector(":scope > details");
    if (part && part.id === "sources" && within) within.open = true;
  };
  addEventListener("hashchange", reveal);
  reveal();
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = Array.from(document.querySelectorAll("details:not([open])"));
    for (const one of closed) one.open = true;
  });
  addEventListener("afterprint", () => {
    for (const one of closed) one.open = false;
  });
})();
