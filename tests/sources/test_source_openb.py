"""openb: the real files against a count by hand, and planted defects."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from conftest import present
from raw import openb
from raw.agreement import converted
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError, UsageError
from ringbco.sources import convert
from ringbco.sources.account import Account
from ringbco.sources.source import Options
from ringbco.trace.gpu_type_choices import resolve

POD = "openb-pod-0001,6000,12288,1,460,,LS,Running,427061,12902960,427061"


@pytest.mark.parametrize("seed", range(5))
def test_every_planted_defect_is_accounted_for(seed: int, tmp_path: Path) -> None:
    converted("openb", openb.generate(seed), tmp_path)


def real_pods(shared_traces: Path) -> Path:
    return present(shared_traces / "openb" / "openb_pod_list_default.csv")


def test_the_real_pods_as_counted_in_the_published_file(shared_traces: Path) -> None:
    account = convert("openb", [real_pods(shared_traces)]).account
    assert account.rows_read == 8152
    assert account.dropped == {
        "never scheduled (Pending)": 897,
        "no GPUs asked for (num_gpu = 0: a CPU job)": 1052,
    }
    assert account.changed == {}
    assert account.noted == {openb.CENSORED: 32}
    assert account.rows_kept == 6203
    matching = account.to_dict()["matching"]
    assert matching["no GPUs asked for (num_gpu = 0: a CPU job)"] == 1088  # 36 of them Pending
    assert matching[openb.CENSORED] == 34  # 2 of them CPU pods


def test_the_real_pods_one_by_one(shared_traces: Path) -> None:
    """Every pod again, with the csv module and the rules as prose."""
    path = real_pods(shared_traces)
    expected = []
    with open(path, newline="") as file:
        for pod in csv.DictReader(file):
            if pod["pod_phase"] == "Pending" or pod["num_gpu"] == "0":
                continue
            created, scheduled = int(pod["creation_time"]), int(pod["scheduled_time"])
            ran = int(pod["deletion_time"]) - scheduled
            assert ran > 0
            assert scheduled >= created
            gpus, milli = int(pod["num_gpu"]), int(pod["gpu_milli"])
            share = milli / 1000 if milli < 1000 else None
            expected.append((pod["name"], float(created), gpus, float(ran), pod["pod_phase"], share))
    frame = convert("openb", [path]).table.frame
    columns = ["job_id", "submit_time", "num_gpus", "duration", "status", "gpu_share"]
    assert frame.select(columns).rows() == sorted(expected, key=lambda row: row[1])


def test_the_real_nodes_are_the_preset_in_another_order(shared_traces: Path) -> None:
    nodes = shared_traces / "openb" / "openb_node_list_gpu_node.csv"
    result = convert("openb", [real_pods(shared_traces), nodes], Options(want_cluster=True))
    preset = Cluster.parse("preset:openb")
    assert result.cluster is not None
    assert result.cluster.num_servers == preset.num_servers == 1213
    assert result.cluster.num_gpus == preset.num_gpus == 6212
    for cluster in (result.cluster, preset):
        assert cluster.server_vc is None
        assert cluster.server_gpu_type is not None
    assert kinds(result.cluster) == kinds(preset)


def kinds(cluster: Cluster) -> Counter[tuple[int, str | None]]:
    types = cluster.server_gpu_type or ()
    return Counter(zip(cluster.server_gpus.tolist(), types, strict=True))


def test_what_the_real_pods_may_run_on(shared_traces: Path) -> None:
    nodes = shared_traces / "openb" / "openb_node_list_gpu_node.csv"
    result = convert("openb", [real_pods(shared_traces), nodes], Options(want_cluster=True))
    assert result.cluster is not None
    assert result.cluster.gpu_types == {}  # the catalogue knows them all
    assert set(result.cluster.types) == {"G2", "G3", "V100M16", "V100M32", "T4", "P100", "A10"}
    kinds = resolve(result.table, result.cluster)
    assert kinds is not None
    # This list of pods has the column gpu_spec, but nothing in it: every pod may run anywhere.
    assert result.table.frame["gpu_type"].null_count() == result.table.num_jobs
    assert [len(kind.allowed) for kind in kinds.kinds] == [7]


def test_a_node_of_a_type_nobody_knows_is_declared(tmp_path: Path) -> None:
    pods, nodes = openb.generate().write(tmp_path)
    nodes.write_text("sn,gpu,model\na,2,X9\nb,2,\nc,2,T4\nd,0,\n")
    result = convert("openb", [pods, nodes], Options(want_cluster=True))
    assert result.cluster is not None
    assert result.cluster.server_gpu_type == ("X9", "unknown", "T4")
    assert sorted(result.cluster.gpu_types) == ["unknown", "x9"]
    (tmp_path / "c.toml").write_text(result.cluster.to_toml())
    assert Cluster.parse(tmp_path / "c.toml") == result.cluster
    assert result.account.noted["node without model: its GPU type is unknown"] == 1
    assert any("GPU types X9, unknown" in note for note in result.notes)
    nodes.write_text("sn,gpu,model\na,2,\nb,2,\n")
    result = convert("openb", [pods, nodes], Options(want_cluster=True))
    assert result.cluster is not None
    assert result.cluster.types == ()
    assert not result.notes
    assert "node without model: its GPU type is unknown" not in result.account.noted


def test_servers_from_nodes(tmp_path: Path) -> None:
    raw = openb.generate()
    raw.noted["node left out of the cluster: no GPUs (gpu = 0)"] = 1
    result = converted("openb", raw, tmp_path, want_cluster=True)
    assert result.cluster is not None
    # A node without GPUs is left out; equal neighbours are one group.
    assert result.cluster.server_gpus.tolist() == [2, 2, 2, 8, 8, 2, 8]
    assert result.cluster.server_gpu_type == (*["P100"] * 3, "G2", "G2", "P100", "V100M16")
    assert result.cluster.to_toml().count("[[servers]]") == 4
    pods, nodes = openb.generate().write(tmp_path)
    with pytest.raises(UsageError, match=r"give openb_node_list_gpu_node\.csv beside the pods"):
        convert("openb", [pods], Options(want_cluster=True))
    nodes.write_text("sn,gpu,model\nn1,2,T4\nn2,x,T4\n")
    with pytest.raises(InputError) as caught:
        convert("openb", [pods, nodes], Options(want_cluster=True))
    assert str(caught.value) == f"{nodes}: row 2 (line 3), column gpu: x: expected a whole number of GPUs"
    nodes.write_text("sn,gpu,model\nn1,0,\n")
    with pytest.raises(InputError, match="lists no node with a GPU"):
        convert("openb", [pods, nodes], Options(want_cluster=True))


def test_nodes_without_gpus_are_noted_and_repeated_ones_refused(tmp_path: Path) -> None:
    pods, nodes = openb.generate().write(tmp_path)
    nodes.write_text("sn,gpu,model\na,2,T4\nb,,T4\n\nc, ,T4\nd,0,T4\ne,1,T4\n")
    result = convert("openb", [pods, nodes], Options(want_cluster=True))
    assert result.cluster is not None
    assert result.cluster.server_gpus.tolist() == [2, 1]
    noted = result.account.noted
    assert noted["node left out of the cluster: no GPUs (gpu = 0)"] == 1
    assert noted["node left out of the cluster: gpu is blank"] == 2
    assert Account.from_metadata(result.table.metadata) == result.account
    nodes.write_text("sn,gpu,model\na,2,T4\n\nb,2,T4\n a ,2,T4\n")
    with pytest.raises(InputError) as caught:
        convert("openb", [pods, nodes], Options(want_cluster=True))
    assert str(caught.value) == (
        f"{nodes}: row 3 (line 5), column sn: ' a ': "
        "expected a node of its own; an earlier row has it, so drop one"
    )
    pods.write_text(f"{','.join(openb.COLUMNS)}\n{POD}\n")
    nodes.write_text("sn,gpu,model\na,2,T4\nb,,T4\n")
    with pytest.raises(InputError, match=r"row 2 \(line 3\), column gpu: null: expected a whole number"):
        convert("openb", [pods, nodes], Options(want_cluster=True, strict=True))


@pytest.mark.parametrize(
    ("old", "new", "column", "said"),
    [
        (",1,460,", ",0,0,", "num_gpu", "0: expected at least one GPU"),
        (",460,", ",0,", "gpu_milli", "0: expected thousandths of a GPU, 1 to 1000"),
        (
            "Running",
            "Pending",
            "pod_phase",
            "Pending: expected a pod that ran; without --strict: dropped, never",
        ),
        ("Running", "Lost", "pod_phase", "Lost: expected one of Running, Failed, Succeeded"),
        ("12902960,427061", "12902960,", "scheduled_time", "null: expected a number of seconds"),
        ("12902960", "427061", "deletion_time", "427061: expected later than scheduled_time"),
        ("12902960", "1", "deletion_time", "1: expected later than scheduled_time"),
        (",427061,", ",427062,", "scheduled_time", "427061: expected no earlier than creation_time"),
        (
            "pod-0001",
            "pod-0000",
            "name",
            "openb-pod-0000: expected a value of its own; an earlier row has it",
        ),
    ],
)
def test_strict_stops_at_the_row(old: str, new: str, column: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    first = POD.replace("pod-0001", "pod-0000")
    path.write_text(f"{','.join(openb.COLUMNS)}\n{first}\n{POD.replace(old, new)}\n")
    with pytest.raises(InputError) as caught:
        convert("openb", [path], Options(strict=True))
    assert str(caught.value).startswith(f"{path}: row 2 (line 3), column {column}: {said}")


def test_a_censored_pod_is_no_defect(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(f"{','.join(openb.COLUMNS)}\n{POD}\n")
    account = convert("openb", [path], Options(strict=True)).account
    assert account.noted == {openb.CENSORED: 1}


def test_the_spec_lists_the_types_that_a_pod_may_run_on(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    specs = ["", "V100M16", "V100M16|V100M32"]
    rows = [POD.replace(",,", f",{spec},").replace("pod-0001", f"pod-{spec}") for spec in specs]
    path.write_text("\n".join([",".join(openb.COLUMNS), *rows]))
    frame = convert("openb", [path]).table.frame
    assert frame["gpu_type"].to_list() == [None, *specs[1:]]
    assert frame["gpu_spec"].to_list() == [None, *specs[1:]]
    assert frame["gpu_share"].to_list() == [0.46] * 3
    assert frame["num_gpus"].to_list() == [1] * 3
