# SPDX-License-Identifier: MIT
"""Tests that the Kubernetes manifests agree with each other, with kilnd's settings and with the
image."""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import unittest

try:
    import yaml
except ImportError:
    yaml = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACE = ROOT / "docs/operations/kubernetes"
WATCHDOG_S = 30  # WatchdogSec= of the unit


def objects(name):
    text = (PLACE / name).read_text(encoding="utf-8")
    return {o["kind"]: o for o in yaml.safe_load_all(text)}


def default_seconds(setting):
    text = (ROOT / "daemon/config/config.def").read_text(encoding="utf-8")
    return int(re.search(rf'^SETTING\({setting}, DURATION, \w+, "(\d+)s"', text, re.M)[1])


def seconds(probe):
    """Returns how long the 'kilnctl ping' of a probe waits."""
    command = probe["exec"]["command"]
    assert command[:2] == ["/usr/bin/kilnctl", "ping"], command
    return int(command[command.index("--timeout") + 1].rstrip("s"))


@unittest.skipUnless(yaml, "needs PyYAML (Debian's python3-yaml)")
class Manifests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.objects = objects("kilnd.yml")
        cls.set = cls.objects["DaemonSet"]["spec"]
        cls.pod = cls.set["template"]["spec"]
        cls.kilnd = cls.pod["containers"][0]
        cls.job = objects("job.yml")["Pod"]["spec"]
        cls.traced = objects("traced-job.yml")["Pod"]["spec"]

    def test_every_object_has_its_required_fields(self):
        for name in ("kilnd.yml", "job.yml", "traced-job.yml"):
            for kind, one in objects(name).items():
                self.assertIn("apiVersion", one, kind)
                self.assertRegex(one["metadata"]["name"], r"^[a-z][a-z0-9-]*$")
        for container in (self.pod["containers"] + self.job["containers"] +
                          self.job["initContainers"] + self.traced["containers"] +
                          self.traced["initContainers"]):
            self.assertTrue(container["name"] and container["image"])

    def test_names_lead_to_objects_of_the_file(self):
        space = self.objects["Namespace"]["metadata"]["name"]
        account = self.objects["ServiceAccount"]
        self.assertEqual({self.objects[kind]["metadata"]["namespace"]
                          for kind in ("DaemonSet", "ServiceAccount")}, {space})
        self.assertEqual(self.pod["serviceAccountName"], account["metadata"]["name"])
        self.assertFalse(account["automountServiceAccountToken"])
        self.assertEqual(self.pod["priorityClassName"],
                         self.objects["PriorityClass"]["metadata"]["name"])
        self.assertEqual(self.set["selector"]["matchLabels"],
                         self.set["template"]["metadata"]["labels"])

    def test_every_mount_has_a_volume(self):
        for pod in (self.pod, self.job, self.traced):
            volumes = {volume["name"] for volume in pod["volumes"]}
            mounted = {mount["name"] for c in pod["containers"] + pod.get("initContainers", [])
                       for mount in c["volumeMounts"]}
            self.assertEqual(mounted, volumes)

    def test_jobs_see_the_directory_that_kilnd_makes(self):
        paths = [next(v["hostPath"]["path"] for v in pod["volumes"] if "hostPath" in v)
                 for pod in (self.pod, self.job, self.traced)]
        self.assertEqual(paths, 3 * ["/run/kiln"])
        self.assertIn("/run/kiln/kilnd.sock", self.kilnd["args"])

    def test_two_kilnds_never_share_a_cache(self):
        self.assertEqual(self.set["updateStrategy"]["type"], "RollingUpdate")
        self.assertEqual(self.set["updateStrategy"]["rollingUpdate"]["maxSurge"], 0)

    def test_a_stop_may_take_as_long_as_kilnd_drains(self):
        self.assertGreater(self.pod["terminationGracePeriodSeconds"],
                           default_seconds("drain_timeout"))

    def test_each_probe_ends_within_its_time(self):
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            probe = self.kilnd[kind]
            self.assertGreater(probe["timeoutSeconds"], seconds(probe), kind)

    def test_a_kilnd_that_hangs_is_restarted_no_sooner_than_by_the_watchdog(self):
        unit = (ROOT / "systemd/kilnd.service.in").read_text(encoding="utf-8")
        self.assertIn(f"\nWatchdogSec={WATCHDOG_S}\n", unit)
        probe = self.kilnd["livenessProbe"]
        self.assertGreaterEqual(probe["failureThreshold"] * seconds(probe), WATCHDOG_S)

    def test_nodes_with_gpus_are_tolerated(self):
        self.assertEqual({t["key"] for t in self.pod["tolerations"]},
                         {"amd.com/gpu", "nvidia.com/gpu"})

    def test_capabilities_are_those_that_the_documents_name(self):
        granted = self.kilnd["securityContext"]["capabilities"]
        self.assertEqual(granted["drop"], ["ALL"])
        page = (ROOT / "docs/operations/containers.md").read_text(encoding="utf-8")
        section = page[page.index("## kilnd itself in a container"):]
        named = set(re.findall(r"`CAP_(\w+)`", section))
        self.assertEqual(set(granted["add"]), named)

    def test_the_image_has_the_group_that_jobs_name(self):
        text = (PLACE / "Dockerfile").read_text(encoding="utf-8")
        number = int(re.search(r"groupadd --system --gid (\d+) kiln$", text, re.M)[1])
        for pod in (self.job, self.traced):
            self.assertEqual(pod["securityContext"]["supplementalGroups"], [number])


@unittest.skipUnless(yaml, "needs PyYAML (Debian's python3-yaml)")
class TracedJob(unittest.TestCase):
    """Runs the commands of traced-job.yml with a fake kilnctl, which logs its calls."""

    def setUp(self):
        self.objects = objects("traced-job.yml")
        pod = self.objects["Pod"]["spec"]
        self.prefetch, self.sidecar = pod["initContainers"]
        self.job = pod["containers"][0]
        place = tempfile.TemporaryDirectory(prefix="kiln-manifests-")
        self.addCleanup(place.cleanup)
        self.calls = pathlib.Path(place.name) / "calls"
        self.calls.touch()
        fake = pathlib.Path(place.name) / "kilnctl"
        fake.write_text(f'#!/bin/sh\necho "$*" >>"{self.calls}"\necho report\nexit 6\n',
                        encoding="utf-8")
        fake.chmod(0o755)

    def start(self, container):
        variables = {one["name"]: one["value"] for one in container["env"]}
        path = f"{self.calls.parent}:{os.environ['PATH']}"
        return subprocess.Popen(container["command"] + container["args"],
                                env=dict(variables, PATH=path), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                start_new_session=True)

    def test_all_containers_use_the_traces_of_one_job(self):
        def of(container):
            home = {one["name"]: one["value"] for one in container["env"]}
            mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
            self.assertEqual(mounts["traces"], home["HOME"] + "/.cache/kiln/traces")
            return home

        self.assertEqual(of(self.prefetch), of(self.job))
        self.assertEqual(of(self.sidecar), of(self.job))
        volumes = {one["name"]: one for one in self.objects["Pod"]["spec"]["volumes"]}
        self.assertEqual(volumes["traces"]["persistentVolumeClaim"]["claimName"],
                         self.objects["PersistentVolumeClaim"]["metadata"]["name"])

    def test_a_prefetch_that_fails_does_not_fail_the_pod(self):
        done = self.start(self.prefetch)
        _, errors = done.communicate(timeout=60)
        self.assertEqual((done.returncode, errors), (0, "exit status 6\n"))
        self.assertEqual(self.calls.read_text(), "trace prefetch train --budget 2m\n")
        self.assertNotIn("restartPolicy", self.prefetch)

    def test_the_sidecar_reports_when_kubernetes_ends_it(self):
        self.assertEqual(self.sidecar["restartPolicy"], "Always")
        self.sidecar["args"] = ["echo ready; " + self.sidecar["args"][0].replace(
            "while :", "echo waits; while :")]
        done = self.start(self.sidecar)
        self.assertEqual([done.stdout.readline() for _ in range(2)], ["ready\n", "waits\n"])
        self.assertEqual(self.calls.read_text(), "")
        done.send_signal(signal.SIGTERM)
        self.assertEqual(done.stdout.readline(), "report\n")
        self.assertEqual(done.wait(timeout=60), 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(done.pid, signal.SIGKILL)  # ends sleep, which keeps the pipe open
        done.communicate(timeout=60)
        self.assertEqual(self.calls.read_text(), "trace prefetch train --report\n")


if __name__ == "__main__":
    unittest.main()
