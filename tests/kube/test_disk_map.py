"""The map (``spindle ui``) with a real API server and in a real browser."""

import copy
import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from kubernetes import client

from e2e.chromium import Chromium, PageError, Tab, find_chromium
from e2e.cluster.apiserver import ApiServer
from tests import map_samples
from tests.kube.api import Resources
from tests.map_server import put, report, spindle_ui

pytestmark = pytest.mark.kube

DISKS = 4
# What a tenant, a node or a topic's owner could write into names and messages.
ATTACK = """<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>"""


@pytest.fixture(scope="module")
def program() -> str:
    found = find_chromium()
    if found is None:
        pytest.skip("this machine has no Chromium, and it cannot be installed with apt-get")
    return found


@pytest.fixture(scope="module")
def chromium(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(program, tmp_path_factory.mktemp("browser")) as running:
        yield running


@pytest.fixture
def core(api_client: client.ApiClient) -> Any:
    return client.CoreV1Api(api_client)


@pytest.fixture
def brokers(resources: Resources) -> list[dict[str, Any]]:
    """A cluster of six brokers in three racks, whose disks are all in use."""
    put(resources, map_samples.cluster("demo", 6, DISKS))
    made = [map_samples.broker("demo", number, DISKS) for number in range(6)]
    for each in made:
        put(resources, each)
    return made


@pytest.fixture
def url(api_server: ApiServer, namespace: str, brokers: list[dict[str, Any]]) -> Iterator[str]:
    with spindle_ui(api_server.kubeconfig, "demo", "-n", namespace) as (address, _):
        yield address


@pytest.fixture
def tab(chromium: Chromium, url: str) -> Tab:
    """The page, as soon as it shows all disks."""
    made = chromium.tab()
    made.resize(1600, 1000)
    made.open(url)
    made.wait(f"document.querySelectorAll('.card .cell').length === {6 * DISKS}")
    return made


def cell(broker: int, disk: int) -> str:
    return f"""document.querySelector('.card[data-broker="demo-broker-{broker}"] .cell[data-disk="disk{disk}"]')"""


def fail(resources: Resources, broker: dict[str, Any], disk: int, state: str = "Failed") -> None:
    changed = copy.deepcopy(broker)
    changed["status"]["state"] = "Degraded"
    changed["status"]["disks"][disk].update(state=state, reason="DiskFailed", message="A probe failed: EIO.")
    report(resources, changed)


def test_a_disk_that_fails_is_shown_as_failed(tab: Tab, resources: Resources, brokers: list[Any]) -> None:
    assert tab.evaluate(f"{cell(3, 1)}.dataset.state") == "Active"

    fail(resources, brokers[3], 1)

    tab.wait(f"{cell(3, 1)}.dataset.state === 'Failed'", 5)
    assert tab.evaluate(f"{cell(3, 1)}.textContent") == "\N{MULTIPLICATION SIGN}"  # a sign, not only a colour
    assert ("gridcell", "Broker 3 disk1, Failed") in [(role, name[:22]) for role, name in tab.accessible()]
    assert "Broker 3 disk1 is Failed, it was Active." in tab.evaluate(
        "document.getElementById('news').textContent"
    )
    assert "1 Failed" in tab.evaluate("document.getElementById('tally').textContent")
    assert tab.complaints() == []


@pytest.mark.slow
def test_brokers_come_and_go(tab: Tab, resources: Resources, api_client: client.ApiClient) -> None:
    put(resources, map_samples.broker("demo", 6, DISKS, 4))
    tab.wait(f"{cell(6, 0)}")
    assert tab.evaluate(f"{cell(6, 0)}.closest('.rack').dataset.rack") == "zone-c"

    objects: Any = client.CustomObjectsApi(api_client)
    objects.delete_namespaced_custom_object(
        "spindle.dev", "v1alpha1", resources.namespace, "kafkabrokers", "demo-broker-6"
    )
    tab.wait(f"!{cell(6, 0)}")


@pytest.mark.slow
def test_what_the_cluster_waits_for_and_proposals_are_beside_the_map(
    tab: Tab, resources: Resources, core: Any
) -> None:
    entry = map_samples.waiting(
        "RestartBroker", "demo-broker-1", "WouldBeUnderMinIsr", "orders-1 needs it.", "broker 2 in sync"
    )
    report(resources, map_samples.cluster("demo", 6, DISKS, waiting=[entry]))
    put(resources, map_samples.proposal("demo"))
    core.create_namespaced_config_map(resources.namespace, map_samples.journal("demo"))

    text = tab.wait(
        "document.querySelector('#waiting .way-out') && document.querySelector('.gain') && document.querySelector('progress') && document.body.innerText"
    )

    assert "To resolve: broker 2 in sync" in text
    assert "fullest disk: 86% → 64%" in text
    assert "spindle rebalance approve demo-7f3a" in text
    assert "1 disk2 → 4 disk1 (evacuate)" in text
    assert "11 GiB of 40 GiB" in text


def test_a_disk_opens_with_its_details_by_the_keyboard_alone(
    tab: Tab, resources: Resources, brokers: list[Any], core: Any
) -> None:
    event = map_samples.event(resources.get(brokers[3]), "DiskActive", "disk1 is in use.", 3600)
    core.create_namespaced_event(resources.namespace, event)

    for _ in range(4):  # find, the checkbox and the button come first, after the link that skips them
        tab.press("Tab")
    tab.press("Tab")
    assert focused(tab).startswith("Broker 0 disk0")
    tab.press("ArrowRight")
    tab.press("ArrowDown")
    assert focused(tab).startswith("Broker 3 disk1")
    tab.press("Enter")

    text = tab.wait("document.querySelector('.facts') && document.getElementById('detail').innerText")
    assert "/dev/sdc" in text
    assert "/mnt/disks/disk1" in text
    assert "data-disk1-demo-3" in text
    assert "DiskActive disk1 is in use." in text
    assert "spindle disk drain demo-broker-3 disk1" in text
    assert ("dialog", "Broker 3 disk1") in tab.accessible()

    tab.press("Escape")
    tab.wait("!document.getElementById('detail').open")
    assert focused(tab).startswith("Broker 3 disk1")


@pytest.mark.slow
def test_keys_move_between_disks_brokers_and_racks(tab: Tab) -> None:
    tab.evaluate(f"{cell(0, 0)}.focus()")
    for key, broker, disk in (
        ("End", 0, 3),
        ("ArrowRight", 0, 3),  # there is none
        ("PageDown", 1, 3),
        ("ArrowDown", 4, 3),
        ("Home", 4, 0),
        ("PageUp", 3, 0),
        ("ArrowUp", 0, 0),
    ):
        tab.press(key)
        assert focused(tab).startswith(f"Broker {broker} disk{disk},"), key
    # One stop for the key Tab, however many disks there are.
    assert tab.evaluate("document.querySelectorAll('.card .cell[tabindex=\"0\"]').length") == 1


@pytest.mark.slow
def test_n_leads_to_the_next_disk_that_needs_attention(
    tab: Tab, resources: Resources, brokers: list[Any]
) -> None:
    quiet = [copy.deepcopy(each) for each in brokers]
    for each in quiet:
        for disk in each["status"]["disks"]:
            disk["usage"]["level"] = "Normal"
        report(resources, each)
    tab.wait("document.querySelectorAll('[data-attention]').length === 0")
    fail(resources, quiet[4], 2)
    fail(resources, quiet[5], 0)
    tab.wait("document.querySelectorAll('[data-attention]').length === 2")

    for expected in ("Broker 4 disk2", "Broker 5 disk0", "Broker 4 disk2"):
        tab.press("n")
        assert focused(tab).startswith(expected)

    tab.evaluate("document.getElementById('attention').click()")
    assert tab.evaluate(
        "[...document.querySelectorAll('.card:not([hidden])')].map(row => row.dataset.broker)"
    ) == [
        "demo-broker-4",
        "demo-broker-5",
    ]


def focused(tab: Tab) -> str:
    return str(tab.evaluate("document.activeElement.getAttribute('aria-label') ?? ''"))


def test_a_screen_reader_gets_racks_brokers_and_disks(tab: Tab) -> None:
    found = tab.accessible()
    roles = [role for role, _ in found]

    assert ("main", "Disks by rack and broker") in found
    assert [name.split()[0] for role, name in found if role == "grid"] == ["zone-a", "zone-b", "zone-c"]
    assert roles.count("row") == 6
    assert roles.count("gridcell") == 6 * DISKS
    assert any(
        name.startswith("Broker 4 on node-b02, Running") for role, name in found if role == "rowheader"
    )
    cells = [name for role, name in found if role == "gridcell"]
    assert all(
        "Active" in name and "% of 8.0 TiB used" in name and "expected in 7 days" in name for name in cells
    )
    assert {"Waiting", "Conditions", "Moves", "Proposals", "Legend"} <= {
        name for role, name in found if role == "heading"
    }
    assert {name for role, name in found if role == "button" and not name} == set()


def test_texts_of_others_stay_texts(tab: Tab, resources: Resources, brokers: list[Any], core: Any) -> None:
    entry = map_samples.waiting("RestartBroker", ATTACK, "WouldBeUnderMinIsr", ATTACK, ATTACK)
    report(resources, map_samples.cluster("demo", 6, DISKS, waiting=[entry], phase=ATTACK))
    changed = copy.deepcopy(brokers[0])
    changed["status"].update(state=ATTACK[:63], message=ATTACK)
    changed["status"]["disks"][0].update(
        state=ATTACK[:63], message=ATTACK, device=ATTACK, path=ATTACK, reason=ATTACK[:63]
    )
    report(resources, changed)
    proposal = map_samples.proposal("demo")
    proposal["status"]["message"] = ATTACK
    put(resources, proposal)
    event = map_samples.event(resources.get(changed), "DiskFailed", f"disk0 {ATTACK}", 1)
    core.create_namespaced_event(resources.namespace, event)

    tab.wait(
        "document.getElementById('phase').textContent.includes('<img') && document.querySelector('#proposals h3')"
    )
    tab.wait(f"{cell(0, 0)}.dataset.state.includes('<img')")
    tab.evaluate(f"{cell(0, 0)}.click()")
    tab.wait("document.querySelector('.history')")

    assert tab.evaluate("document.querySelectorAll('img, script:not([src])').length") == 0
    assert tab.evaluate("document.title") == "demo: Spindle map"
    assert ATTACK in tab.evaluate("document.querySelector('#waiting .way-out').textContent")
    assert ATTACK in tab.evaluate("document.querySelector('.facts').textContent")
    assert ATTACK in tab.evaluate("document.querySelector('.history').textContent")
    assert tab.complaints() == []


def test_the_policy_stops_a_script_and_html_in_the_page_itself(tab: Tab) -> None:
    """What holds if a text ever were inserted as HTML."""
    with pytest.raises(PageError, match="TrustedHTML"):
        tab.evaluate("document.body.insertAdjacentHTML('beforeend', '<b>x</b>')")
    tab.evaluate(
        "{ const s = document.createElement('script'); try { s.text = 'window.owned = 1'; document.body.append(s) } catch {} ; 1 }"
    )
    assert tab.evaluate("window.owned ?? null") is None


def test_nothing_is_loaded_from_the_network(tab: Tab, url: str) -> None:
    asked = [each for each in tab.requested() if each != "about:blank"]

    assert {urlsplit(each).netloc for each in asked} == {urlsplit(url).netloc}
    assert [each for each in asked if "token" in each] == [url]
    assert "token" not in tab.evaluate("location.href")
    assert tab.evaluate("document.cookie") == ""  # HttpOnly


@pytest.mark.slow
def test_dark_and_light_pages_differ(tab: Tab) -> None:
    colours = []
    for on in (False, True):
        tab.dark(on=on)
        colours.append(tab.evaluate("getComputedStyle(document.body).backgroundColor"))

    assert len(set(colours)) == 2


@pytest.mark.slow
def test_the_page_says_when_the_command_has_ended(
    chromium: Chromium, api_server: ApiServer, namespace: str, brokers: list[Any]
) -> None:
    tab = chromium.tab()
    with spindle_ui(api_server.kubeconfig, "demo", "-n", namespace) as (address, process):
        tab.open(address)
        tab.wait(f"document.querySelectorAll('.card .cell').length === {6 * DISKS}")
        process.terminate()
        assert process.wait(timeout=10) == 0

    tab.wait("document.getElementById('connection').textContent.includes('No connection')")


def asked(url: str, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port or 0, timeout=10)
    connection.request(
        method, path, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )
    answer = connection.getresponse()
    if answer.headers.get_content_type() == "text/event-stream":
        first = answer.readline()
        connection.close()
        return answer.status, dict(answer.headers), first
    found = answer.status, dict(answer.headers), answer.read()
    connection.close()
    return found


PATHS = ("/", "/map.css", "/main.js", "/live", "/disk?broker=demo-broker-0&disk=disk0")


def test_without_the_cookie_nothing_is_served(url: str) -> None:
    for path in PATHS:
        status, headers, body = asked(url, path)
        assert status == 403, path
        assert b"demo" not in body
        assert "default-src 'none'" in headers["Content-Security-Policy"]


def test_the_token_of_the_url_is_exchanged_once(url: str) -> None:
    path = url.split(str(urlsplit(url).netloc), 1)[1]
    port = urlsplit(url).port

    for wrong in ("/?token=", "/?token=x", path[:-1], f"{path}x"):
        assert asked(url, wrong)[0] == 403
    assert asked(url, path, Host=f"evil.example:{port}")[0] == 403
    status, headers, _ = asked(url, path)
    assert (status, headers["Location"]) == (303, "/")
    assert "HttpOnly" in headers["Set-Cookie"]
    assert "SameSite=Strict" in headers["Set-Cookie"]
    assert asked(url, path)[0] == 403

    cookie = headers["Set-Cookie"].split(";")[0]
    for each in PATHS:
        assert asked(url, each, Cookie=cookie)[0] == 200, each
        assert asked(url, each, Cookie=cookie, Host=f"evil.example:{port}")[0] == 403
        assert asked(url, each, Cookie=cookie, Origin="http://evil.example")[0] == 403
        assert asked(url, each, Cookie=cookie, Sec_Fetch_Site="cross-site")[0] == 403
        assert asked(url, each, "POST", Cookie=cookie)[0] == 403
        assert asked(url, each, Cookie=cookie[:-2])[0] == 403
    assert asked(url, "/../pyproject.toml", Cookie=cookie)[0] == 404
    assert asked(url, "/%2e%2e/server.py", Cookie=cookie)[0] == 404


def test_it_listens_on_loopback_only(url: str) -> None:
    port = urlsplit(url).port
    listening = [
        line.split()[1]
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
        if line.split()[3] == "0A" and int(line.split()[1].split(":")[1], 16) == port
    ]

    assert [each.split(":")[0] for each in listening] == ["0100007F"]


@pytest.fixture
def reader(api_server: ApiServer, namespace: str, tmp_path: Path) -> Path:
    """Kubeconfig of a user who may read Spindle's resources, and neither ConfigMaps nor events."""
    for arguments in (
        ("create", "serviceaccount", "reader"),
        (
            "create",
            "role",
            "reader",
            "--verb=get,list,watch",
            "--resource=kafkaclusters.spindle.dev,kafkabrokers.spindle.dev",
        ),
        ("create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={namespace}:reader"),
    ):
        api_server.kubectl("-n", namespace, *arguments)
    kubeconfig = json.loads(api_server.kubectl("config", "view", "--raw", "-o", "json"))
    token = api_server.kubectl("-n", namespace, "create", "token", "reader").strip()
    kubeconfig["users"][0]["user"] = {"token": token}
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(kubeconfig))
    return path


def test_the_map_has_the_rights_of_its_user(
    chromium: Chromium, reader: Path, namespace: str, brokers: list[dict[str, Any]]
) -> None:
    tab = chromium.tab()
    with spindle_ui(reader, "demo", "-n", namespace) as (address, _):
        tab.open(address)
        tab.wait(f"document.querySelectorAll('.card .cell').length === {6 * DISKS}")
        text = tab.wait(
            "document.querySelectorAll('#trouble li').length === 2 && document.getElementById('trouble').innerText"
        )
        assert 'configmaps "demo-moves" is forbidden' in text
        assert "kafkarebalances.spindle.dev is forbidden" in text

        tab.evaluate(f"{cell(0, 0)}.click()")
        tab.wait(
            "document.querySelector('.facts') && document.getElementById('detail').innerText.includes('events is forbidden')"
        )


def test_a_user_without_rights_is_told_so(reader: Path, brokers: list[dict[str, Any]]) -> None:
    with pytest.raises(AssertionError, match="forbidden"), spindle_ui(reader, "demo", "-n", "default"):
        pass


def test_the_key_tab_leads_to_a_disk_whatever_is_hidden(tab: Tab) -> None:
    shown = """document.querySelectorAll('.card:not([hidden]) .cell[tabindex="0"]').length"""
    tab.evaluate(f"{cell(0, 1)}.focus()")
    find = "(value => { const find = document.getElementById('find'); find.value = value; find.dispatchEvent(new Event('input')); })"
    tab.evaluate(f"{find}('node-b02')")
    assert tab.evaluate(f"{cell(0, 0)}.closest('.card').hidden") is True
    assert tab.evaluate(shown) == 1
    tab.evaluate(f"{find}('no such node')")
    assert tab.evaluate(shown) == 0
    tab.evaluate(f"{find}('')")
    assert tab.evaluate(shown) == 1


@pytest.mark.slow
def test_lists_keep_the_focus_and_their_times(tab: Tab, resources: Resources) -> None:
    entry = map_samples.waiting(
        "RestartBroker", "demo-broker-1", "WouldBeUnderMinIsr", "It waits.", "broker 2"
    )
    report(resources, map_samples.cluster("demo", 6, DISKS, waiting=[entry]))
    button = "document.querySelector('#waiting button')"
    tab.wait(button)
    tab.evaluate(f"{button}.focus()")
    label = focused(tab)
    assert "demo-broker-1" in label
    changed = {**entry, "message": "It still waits."}
    report(resources, map_samples.cluster("demo", 6, DISKS, waiting=[changed]))
    tab.wait("document.getElementById('waiting').innerText.includes('still')")
    assert focused(tab) == label

    # Half a minute later, without a change in Kubernetes.
    time = "document.querySelector('#waiting time')"
    before = tab.evaluate(f"{time}.textContent")
    tab.evaluate("{ const now = Date.now; Date.now = () => now() + 86400000 * 3; }")
    after = tab.wait(f"{time}.textContent !== {json.dumps(before)} && {time}.textContent", 30)
    assert after.endswith(" d")
    assert focused(tab) == label
    assert tab.complaints() == []


def test_nothing_is_left_of_a_cluster_that_is_gone(
    tab: Tab, resources: Resources, api_client: client.ApiClient
) -> None:
    entry = map_samples.waiting(
        "RestartBroker", "demo-broker-1", "WouldBeUnderMinIsr", "It waits.", "broker 2"
    )
    report(resources, map_samples.cluster("demo", 6, DISKS, waiting=[entry]))
    tab.wait("document.querySelector('#waiting .way-out')")
    objects: Any = client.CustomObjectsApi(api_client)
    objects.delete_namespaced_custom_object(
        "spindle.dev", "v1alpha1", resources.namespace, "kafkaclusters", "demo"
    )
    tab.wait("document.getElementById('phase').textContent === 'The KafkaCluster does not exist.'")
    for part in ("waiting", "conditions"):
        assert tab.evaluate(f"document.getElementById('{part}').children.length") == 0
