"""The server and its processes: replaced when killed, gone when the pool is, whoever kills whom."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from prune_engine.errors import MeasureServerError
from prune_engine.measurement import MeasureErrorKind
from prune_engine.metaschedule.measure import MeasurePool, MeasureSettings, WarmServer, client
from prune_engine.metaschedule.measure.linux import find_marked
from prune_engine.metaschedule.measure.tempdirs import create_pool_folder, sweep_stale_folders


def test_killed_server_loses_no_job(make_pool, kernels, find_server):
    jobs = [kernels.plus(f"job-{i}") for i in range(8)]
    with make_pool() as pool:
        results = []
        for result in pool.measure(kernels.task, jobs, None):
            if not results:
                find_server().send_signal(signal.SIGKILL)
            results.append(result)
    assert sorted(result.job_id for result in results) == [job.job_id for job in jobs]
    assert [result.error for result in results] == [None] * 8


def test_only_the_job_that_kills_the_server_is_blamed(make_pool, kernels):
    poison = kernels.shell("poison", "kill -9 $(cut -d' ' -f4 /proc/$PPID/stat)")
    jobs = [kernels.plus("a"), poison, kernels.plus("b"), kernels.plus("c")]
    with make_pool() as pool:
        results = {result.job_id: result for result in pool.measure(kernels.task, jobs, None)}
    assert results.keys() == {"a", "poison", "b", "c"}
    assert results["poison"].error.kind is MeasureErrorKind.CRASH
    assert "SIGKILL" in results["poison"].error.message
    assert [results[name].error for name in "abc"] == [None] * 3


def test_killing_an_idle_server_is_not_noticed(make_pool, kernels, find_server, eventually):
    with make_pool() as pool:
        server = find_server()
        server.kill()
        # A process that is being killed still takes orders: it would die with one, and not idle.
        assert eventually(lambda: server.status() == psutil.STATUS_ZOMBIE)
        (result,) = pool.measure(kernels.task, [kernels.plus("a")], None)
        assert result.error is None


def test_server_that_cannot_start(kernels, monkeypatch):
    monkeypatch.setattr(client.sys, "executable", "/bin/false")
    with (
        MeasurePool(MeasureSettings(kernels.target, 1)) as pool,
        pytest.raises(MeasureServerError, match="in a row"),
    ):
        pool.open_task("t", kernels.plus("default"), kernels.shapes, kernels.dtypes)


def test_target_that_does_not_exist(kernels):
    settings = MeasureSettings('{"kind": "no-such-kind"}', 1)
    with MeasurePool(settings) as pool, pytest.raises(MeasureServerError, match="no-such-kind"):
        pool.open_task("t", kernels.plus("default"), kernels.shapes, kernels.dtypes)


def test_close_leaves_nothing(make_pool, kernels):
    pool = make_pool()
    folder = pool._folder.path
    results = pool.measure(
        kernels.task, [kernels.plus("a"), kernels.calling("b", "pause"), kernels.shell("c", "sleep 971 &")], None
    )
    next(results)
    pool.close()
    pool.close()
    assert not folder.exists()
    assert find_marked(str(folder)) == []
    assert not [child for child in psutil.Process().children(recursive=True) if "measure" in str(child.cmdline())]


def test_pool_can_be_started_again(make_pool, kernels):
    pool = make_pool()
    pool.close()
    with pool:
        assert pool.open_task("t", kernels.plus("default"), kernels.shapes, kernels.dtypes).error is None


_ORPHANING = """
import sys
from prune_engine.metaschedule.measure import BuildJob, MeasurePool, MeasureSettings
good, hanging = (BuildJob(name, open(sys.argv[i]).read()) for i, name in enumerate(["good", "hanging"], 1))
pool = MeasurePool(MeasureSettings(target='{"kind": "llvm"}', n_threads=1, n_builders=2, run_timeout_secs=500))
pool.start()
pool.open_task("t", good, ((16,), (16,)), ("float32",) * 2)
print(pool._folder.path, flush=True)
list(pool.measure("t", [hanging], None))
"""


@pytest.fixture
def orphaning_process(kernels, tmp_path, monkeypatch):
    """A process in the middle of measuring a kernel that hangs; it says so by making ``is-hanging``."""
    hanging = kernels.shell("hanging", f"setsid sleep 953 & touch {tmp_path}/is-hanging; sleep 954")
    for name, job in (("good", kernels.plus("good")), ("hanging", hanging)):
        (tmp_path / name).write_text(job.module_json)
    # Its own temporary folder: whoever else measures on this machine sweeps what the dead left in the usual one.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_ORPHANING), tmp_path / "good", tmp_path / "hanging"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    yield process
    process.kill()
    process.wait()


def test_parent_killed_leaves_nothing(orphaning_process, tmp_path, eventually):
    folder = Path(orphaning_process.stdout.readline().strip())
    assert eventually((tmp_path / "is-hanging").exists)
    assert len(find_marked(str(folder))) >= 4  # server, run child, two sleeps and their shells
    orphaning_process.kill()
    assert eventually(lambda: not find_marked(str(folder)))
    assert eventually(lambda: not folder.exists())


def test_parent_and_server_killed_children_die_and_the_rest_is_swept(orphaning_process, tmp_path, eventually):
    folder = Path(orphaning_process.stdout.readline().strip())
    assert eventually((tmp_path / "is-hanging").exists)
    (server,) = psutil.Process(orphaning_process.pid).children()
    (runner,) = server.children()
    server.kill()
    orphaning_process.kill()
    orphaning_process.wait()
    assert eventually(lambda: not runner.is_running())
    assert folder.exists()
    sweep_stale_folders()
    assert find_marked(str(folder)) == []
    assert not folder.exists()


class TestStaleFolders:
    @pytest.fixture(autouse=True)
    def temporary(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def make(self, tmp_path, pid):
        folder = tmp_path / f"prune-engine-measure-{pid}-abc"
        folder.mkdir()
        (folder / "owner.lock").touch()
        return folder

    def dead_pid(self):
        process = subprocess.Popen(["true"])
        process.wait()
        return process.pid

    def test_of_the_dead_are_removed(self, tmp_path):
        folder = self.make(tmp_path, self.dead_pid())
        sweep_stale_folders()
        assert not folder.exists()

    def test_of_the_living_are_kept(self, tmp_path):
        folder = self.make(tmp_path, os.getpid())
        sweep_stale_folders()
        assert folder.exists()

    def test_that_somebody_holds_are_kept(self, tmp_path):
        folder = self.make(tmp_path, self.dead_pid())
        with (folder / "owner.lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            sweep_stale_folders()
        assert folder.exists()

    def test_a_new_folder_is_removed_with_its_content(self):
        folder = create_pool_folder()
        (folder.path / "file").touch()
        folder.remove()
        folder.remove()
        assert not folder.path.exists()


class TestWarmServer:
    def test_is_taken_over_by_the_first_pool(self, kernels, find_server):
        with WarmServer(1) as warm:
            server = find_server()
            with MeasurePool(MeasureSettings(kernels.target, 1), warm) as pool:
                assert pool.open_task("t", kernels.plus("default"), kernels.shapes, kernels.dtypes).error is None
                assert find_server() == server
                assert warm.take() is None
            assert not server.is_running() or server.status() == psutil.STATUS_ZOMBIE

    def test_leaves_nothing_if_nobody_takes_it(self):
        with WarmServer(1) as warm:
            folder, server = warm.take()
            warm._parts = folder, server
        assert not folder.path.exists()
        assert server.process.returncode is not None

    def test_of_other_threads_is_refused(self, kernels):
        with WarmServer(1) as warm, pytest.raises(ValueError, match="started for 1 threads"):
            MeasurePool(MeasureSettings(kernels.target, 2), warm)

    def test_ends_if_its_parent_is_killed_while_it_loads(self, eventually):
        code = (
            "import time\n"
            "from prune_engine.metaschedule.measure import WarmServer\n"
            "warm = WarmServer(1)\n"
            "print(warm._parts[0].path, flush=True)\n"
            "time.sleep(100)"
        )
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        folder = Path(process.stdout.readline().strip())
        process.kill()
        process.wait()
        assert eventually(lambda: not find_marked(str(folder)) and not folder.exists())
