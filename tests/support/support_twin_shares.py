"""The tree of accounts of a slow, readable replay: shares, usage and its decay, by plain loops."""

import math
from collections import defaultdict

from gpuplan.simkit.twin.site import SiteAssociation

INF = 1 << 60


class Shares:
    """The tree of accounts and users with its usage."""

    def __init__(self, assocs, jobs):
        rows = {(a.account, a.user): a for a in assocs}
        for account, user in dict.fromkeys(
            (a, u)
            for a, u in [(x.account, x.user) for x in assocs] + [(j.account, j.user) for j in jobs]
        ):
            rows.setdefault((account, ""), SiteAssociation(account))
            rows.setdefault((account, user), SiteAssociation(account, user))
        self.rows = rows
        self.usage = defaultdict(float)
        self.children = defaultdict(list)
        for key, row in rows.items():
            self.children[self.above(key)].append(key)
            if key[1]:
                self.charge(key, row.usage)

    def above(self, key):
        account, user = key
        if user:
            return (account, "")
        parent = self.rows[key].parent
        return (parent, "") if (parent, "") in self.rows and parent != account else ()

    def path(self, key):
        while key:
            yield key
            key = self.above(key)
        yield ()

    def charge(self, key, amount):
        for node in self.path(key):
            self.usage[node] += amount

    def decay(self, factor):
        for key in self.usage:
            self.usage[key] *= factor

    def share(self, key):
        total = sum(self.rows[k].shares for k in self.children[self.above(key)])
        return self.rows[key].shares / total if total else 0.0

    def classic(self, dampening):
        total, found = self.usage[()], {}

        def down(key, parent_share, parent_effective, is_top):
            for child in self.children[key]:
                share = self.share(child)
                used = self.usage[child] / total if total > 0 else 0.0
                effective = used if is_top else used + (parent_effective - used) * share
                norm = parent_share * share
                if child[1]:
                    found[child] = 2 ** -(effective / norm / dampening) if norm > 0 else 0.0
                else:
                    down(child, norm, effective, False)

        down((), 1.0, 0.0, True)
        return found

    def level(self, key):
        share = self.share(key)
        if share == 0:
            return 0.0
        if self.usage[key] <= 0:
            return math.inf
        ratio = self.usage[key] / self.usage[self.above(key)]
        return share / ratio if ratio > 0 else math.inf

    def tree(self):
        users = [k for k in self.rows if k[1]]
        found = {}
        next_rank = len(users)

        def down(keys):
            nonlocal next_rank
            ordered = sorted(
                ((self.level(k), bool(k[1]), k) for k in keys), key=lambda x: (-x[0], not x[1])
            )
            i = 0
            while i < len(ordered):
                level, is_user, _ = ordered[i]
                tied = [k for lv, u, k in ordered if lv == level and u == is_user]
                if is_user:
                    for k in tied:
                        found[k] = next_rank / len(users)
                    next_rank -= len(tied)
                else:
                    down([c for k in tied for c in self.children[k]])
                i += len(tied)

        down(self.children[()])
        return found
