"""Speedups from Pollux' goodput model: closed forms, a search of all batches, published values."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.analysis.base.errors import InputError
from gpuplan.planner.speedup.pollux import Goodput
from gpuplan.planner.speedup.registry import load_speedup

LIMITS = {
    "init_batch_size": 4,
    "max_batch_size": 64,
    "min_local_bsz": 2,
    "max_local_bsz": 8,
    "gpus_per_node": 4,
}
PLAIN = Goodput(0.5, 0.25, 0.0, 0.0, 0.0, 0.0, 1.0, **LIMITS, noise_scale=0.0)
HEADER = (
    "job_class,alpha_c,beta_c,alpha_r,beta_r,alpha_n,beta_n,gamma,"
    "init_batch_size,max_batch_size,min_local_bsz,max_local_bsz,gpus_per_node,noise_scale"
)
ROW = "a,0.5,0.25,0.1,0.01,0.2,0.02,1.5,4,64,2,8,4,100"


def goodput(model, k, m, a):
    """The model as it is written in the docs, one configuration at a time."""
    remote = k > model.gpus_per_node
    alpha, beta = (model.alpha_n, model.beta_n) if remote else (model.alpha_r, model.beta_r)
    sync = alpha + beta * (k - 2) if k > 1 else 0.0
    grad = model.alpha_c + model.beta_c * m
    step = a * grad + (grad**model.gamma + sync**model.gamma) ** (1 / model.gamma)
    batch = k * m * (a + 1)
    return batch / step * (model.noise_scale + model.init_batch_size) / (model.noise_scale + batch)


def brute_force(model, k):
    """Best goodput over every batch allowed."""
    best, steps = 0.0, 1
    while k * steps * model.max_local_bsz < model.max_batch_size or (k == 1 and steps == 1):
        steps += 1
    for a in range(steps):
        for m in range(model.min_local_bsz, model.max_local_bsz + 1):
            batch = k * m * (a + 1)
            alone = k == 1 and a == 0 and batch > model.init_batch_size
            if model.init_batch_size <= batch <= model.max_batch_size and not alone:
                best = max(best, goodput(model, k, m, a))
    return best


def test_no_noise_keeps_the_first_batch():
    # phi = 0: a sample of a batch M is worth M0 / M, so goodput is M0 / T, best at the least batch.
    # One GPU: 4 samples in 0.5 + 4 x 0.25 = 1.5 s. Two: 2 each, 1 s. Four: 2 each (the least), 1 s.
    assert PLAIN.best()[[0, 1, 3]] == pytest.approx([4 / 1.5, 4.0, 4.0])
    curve = PLAIN.curve()
    assert curve.widths == tuple(range(1, PLAIN.widest + 1))
    assert curve.speedups == pytest.approx(PLAIN.best() / PLAIN.best()[0])
    assert curve.at(np.array([1.0, 2.0, 4.0])) == pytest.approx([1.0, 1.5, 1.5])


def test_endless_noise_makes_every_sample_count():
    # phi -> infinity: goodput is throughput. Two GPUs: 8 each, 16 / 2.5 s. On one GPU a batch above
    # 4 is accumulated, at best in parts of 8, which take 2.5 s each.
    noisy = replace(PLAIN, noise_scale=1e15)
    assert noisy.best()[:2] == pytest.approx([8 / 2.5, 16 / 2.5])
    assert noisy.best()[7] == pytest.approx(64 / 2.5)
    assert noisy.best()[8] == pytest.approx(63 / 2.25)  # 9 x 7; 9 x 8 is over the largest batch
    assert noisy.widest == 32 and noisy.best()[31] == pytest.approx(64 / 1.0)


def test_one_gpu_accumulates_and_two_do_not():
    # Parts of at most 2: one GPU takes two parts for the first batch of 4, two GPUs take one each.
    curve = replace(PLAIN, max_local_bsz=2, beta_c=0.0).curve()
    assert curve.at(np.array([1.0, 2.0])) == pytest.approx([1.0, 2.0])


def test_where_a_number_of_gpus_allows_no_batch_a_job_uses_fewer():
    # The only batch is of 10 samples, which 3 GPUs cannot share; 2 of them can, and 5.
    model = replace(PLAIN, init_batch_size=10, max_batch_size=10, max_local_bsz=10)
    assert model.best()[2] == 0 and model.best()[4] > model.best()[1] > 0
    curve = model.curve()
    assert curve.at(np.array([3.0, 4.0])) == pytest.approx([curve.at(np.array([2.0]))[0]] * 2)


def test_synchronization_within_and_beyond_a_node():
    model = replace(PLAIN, alpha_r=0.1, beta_r=0.01, alpha_n=1.0, beta_n=0.1)
    assert model.sync_s(np.array([1, 2, 4, 5, 12])) == pytest.approx([0, 0.1, 0.12, 1.3, 2.0])


def test_overlap_hides_the_shorter_part():
    one = np.array([2]), np.array([2]), np.array([0])  # 2 GPUs, 2 samples each: T_grad = 1 s
    model = replace(PLAIN, alpha_r=1.0, noise_scale=1e15)
    assert model.at(*one) == pytest.approx([4 / 2])
    assert replace(model, gamma=2.0).at(*one) == pytest.approx([4 / 2**0.5])
    assert replace(model, gamma=100.0).at(*one) == pytest.approx([4 / 2**0.01])


@settings(max_examples=30)
@given(
    seconds=st.lists(st.floats(0, 2), min_size=5, max_size=5),
    alpha_c=st.floats(0.01, 2),
    gamma=st.floats(1, 10),
    batch=st.tuples(st.integers(1, 40), st.integers(0, 60)),
    local=st.tuples(st.integers(1, 9), st.integers(0, 12)),
    node=st.integers(1, 6),
    noise=st.floats(0, 1e4),
)
def test_best_batch_is_the_best_of_all(seconds, alpha_c, gamma, batch, local, node, noise):
    beta_c, *sync = seconds
    model = Goodput(
        alpha_c,
        beta_c,
        *sync,
        gamma,
        init_batch_size=batch[0],
        max_batch_size=sum(batch),
        min_local_bsz=local[0],
        max_local_bsz=sum(local),
        gpus_per_node=node,
        noise_scale=noise,
    )
    expected = [brute_force(model, k) for k in range(1, model.widest + 1)]
    np.testing.assert_allclose(model.best(), expected, rtol=1e-12)


def write(tmp_path, *lines):
    path = tmp_path / "goodput.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_table_of_goodput_parameters(tmp_path):
    path = write(
        tmp_path,
        HEADER + ",epoch,work_share,work_h,rescale_s",
        f"{ROW},1,0.75,2.5,30",
        f"{ROW[:-3]}10,0,0.25,2.5,30",
    )
    model = load_speedup(f"pollux:{path}")
    assert model.name == f"pollux:{path}" and model.origin == f"Pollux' goodput model, {path}"
    profile = model.of("a")
    assert (profile.shares, profile.work_h, profile.rescale_s) == ((0.25, 0.75), 2.5, 30)
    noisy = Goodput(0.5, 0.25, 0.1, 0.01, 0.2, 0.02, 1.5, **LIMITS, noise_scale=100)
    assert profile.epochs == (replace(noisy, noise_scale=10).curve(), noisy.curve())
    bare = load_speedup(f"pollux:{write(tmp_path, HEADER, ROW)}").of("a")
    assert (bare.shares, bare.work_h, bare.rescale_s) == ((1.0,), None, None)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("a,0", r"csv:2: column 'alpha_c': found '0'; expected seconds, above 0"),
        ("a,.5,-1", r"column 'beta_c': found '-1'; expected seconds, at least 0"),
        ("a,.5,.2,0,0,0,0,0.9", r"column 'gamma': found '0.9'; expected a number from 1 to 100"),
        ("a,.5,.2,0,0,0,0,1,4.5", r"column 'init_batch_size': found '4.5'; expected samples, a wh"),
        ("a,.5,.2,0,0,0,0,1,80", r"column 'max_batch_size': found '64'; expected at least init"),
        ("a,.5,.2,0,0,0,0,1,4,64,9", r"column 'max_local_bsz': found '8'; expected at least min_l"),
        ("a,.5,.2,0,0,0,0,1,4,9000", r"'max_batch_size': found '9000'; expected at most 1,000 x"),
        ("a,.5,.2,0,0,0,0,1,4,64,2,8,4,", r"column 'noise_scale': an empty cell"),
        ("a,.5,.2,0,0,0,0,1,9,9,8,8", r"csv:2: column 'max_batch_size': no batch on one GPU"),
        ("a,.5,.2,0,0,0,0,1,4,6,7", r"csv:2: column 'max_batch_size': no batch on one GPU"),
        (" ", r"csv:2: column 'job_class': "),
    ],
)
def test_bad_cells_are_located(tmp_path, change, said):
    cells = ROW.split(",")
    given = change.split(",")
    path = write(tmp_path, HEADER, ",".join([*given, *cells[len(given) :]]))
    with pytest.raises(InputError, match=said):
        load_speedup(f"pollux:{path}")


def test_bad_tables_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"no column alpha_c, beta_c.*\n.*docs/boa.md"):
        load_speedup(f"pollux:{write(tmp_path, 'job_class', 'a')}")
    with pytest.raises(InputError, match=r"csv:3: column 'job_class': found 'a'; expected one row"):
        load_speedup(f"pollux:{write(tmp_path, HEADER, ROW, ROW)}")
    hours = write(tmp_path, HEADER + ",epoch,work_h", f"{ROW},0,1", f"{ROW},1,2")
    with pytest.raises(InputError, match=r"csv:3: column 'work_h': found '2'; expected the same"):
        load_speedup(f"pollux:{hours}")
    shares = write(tmp_path, HEADER + ",epoch,work_share", f"{ROW},0,.5", f"{ROW},1,.6")
    with pytest.raises(InputError, match=r"the shares of class 'a' add up to 1.1"):
        load_speedup(f"pollux:{shares}")


# Gradient noise at the start of training, in samples; estimated from the published model curve on
# T4. It belongs to the training and not to the GPU, so it must explain the other curves too.
NOISE = {
    "cifar10": 72.4827,
    "bert": 422.964,
    "deepspeech2": 10.22987,
    "yolov3": 0.649455,
    "imagenet": 928.242,
    "ncf": 18565.3,
}


def as_published(model, k):
    """The best of Pollux' 50 batch sizes; rounding up, it may exceed the largest batch."""
    least = max(model.init_batch_size, model.min_local_bsz * k)
    each = np.geomspace(least, model.max_batch_size, 50) / k
    a = np.ceil(each / model.max_local_bsz - 1e-8) - 1
    if k == 1:
        a = np.where(each > model.init_batch_size, np.maximum(a, 1), a)
    m = np.ceil(each / (a + 1) - 1e-8)
    allowed = (m >= model.min_local_bsz) & (m <= model.max_local_bsz)
    found = [goodput(model, k, *pair) for pair in zip(m[allowed], a[allowed], strict=True)]
    batches = k * m[allowed] * (a[allowed] + 1)
    best = int(np.argmax(found))
    return found[best], batches[best] > model.max_batch_size


@pytest.mark.parametrize("gpu_type", ["aws", "dgx"])
@pytest.mark.parametrize("app", NOISE)
def test_published_model_curves(shared, app, gpu_type):
    folder = shared / "data/boa-profiles"
    of = {"app": app, "gpu_type": gpu_type}
    fitted = pl.read_csv(folder / "perf_params.csv").filter(**of).row(0, named=True)
    sizes = pl.read_csv(folder / "job_sizes.csv").filter(**of).row(0, named=True)
    given = {k: v for k, v in (fitted | sizes).items() if k in Goodput.__dataclass_fields__}
    model = Goodput(**given, noise_scale=NOISE[app])
    theirs, over = map(np.array, zip(*(as_published(model, k) for k in range(1, 65)), strict=True))
    curve = pl.read_csv(folder / "speedup.csv.gz", schema_overrides={"progress": pl.String})
    curve = curve.filter(progress="0", **of).sort("num_gpus")
    published = curve["goodput_model_it_per_s"].to_numpy() * given["init_batch_size"]
    np.testing.assert_allclose(theirs, published, rtol=2e-5)
    np.testing.assert_allclose(theirs / theirs[0], curve["speedup_model"], rtol=2e-5)
    # We try all batch sizes within the limit: never less, and hardly more.
    best = model.best()[:64]
    assert (best >= theirs * (1 - 1e-12))[~over].all()
    np.testing.assert_allclose(best[~over], theirs[~over], rtol=1e-2)
