"""The page itself: what it holds, and what a real browser makes of it."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import chromium
import pytest
from cuts import START, collection_cuts
from reports import HOSTILE, broken, finding, healthy, hostile, incident, observation, result

from tallystick.coordinates.audit.missing_answers import missing_answer
from tallystick.coordinates.results import IncidentState, Verdict
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.expectations.validate import CollectionValidator
from tallystick.outputs import html
from tallystick.outputs.html import render
from tallystick.runs.scenario import ClaimResult, ExpectedFinding, RuleCount, ScenarioResult, Seen

EMPTY = result(title="Nothing yet")
PAGES = {"healthy": healthy, "broken": broken, "hostile": hostile, "empty": lambda: EMPTY}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    executable = chromium.find()
    if executable is None:
        pytest.skip("no chromium on the PATH: the page is not looked at in a browser")
    started = chromium.Chromium(executable, tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture
def page(tmp_path):
    def write(data):
        path = tmp_path / "report.html"
        html.write(data, str(path))
        return path

    return write


def test_the_same_data_give_the_same_page():
    """No clock, no chance."""
    assert render(broken()) == render(broken())


def test_one_is_counted_in_the_singular():
    """A single finding is not "1 findings"."""
    page = render(replace(healthy(), found=(finding(),)))
    assert re.search(r"<b>1</b><span>finding</span>", page)


def test_both_halves_are_shown_with_where_each_comes_from():
    """Observed and expected side by side, the witness, the claim, and what to do."""
    page = render(broken())
    for text in (
        "gtid_executed of log_status",
        "binary log up to binlog.000003:235000",
        "aaaaaaaa-0000-0000-0000-000000000001:1271-1272",
        "What to do",
        "server bugs 102175, 112331",
        "Access denied; you need (at least one of) the BACKUP_ADMIN",
    ):
        assert text in page
    rule = RULES["relay_position_on_written_boundary"]
    assert rule.remedy.split(":")[0] in page


def test_the_link_to_the_data_docs_is_relative(tmp_path):
    """The page and the Data Docs can be moved together; without Data Docs there is no link."""
    docs = tmp_path / "run" / "data_docs" / "index.html"
    html.write(replace(broken(), paths={"data_docs": docs}), str(tmp_path / "run" / "r.html"))
    assert 'href="data_docs/index.html"' in (tmp_path / "run" / "r.html").read_text("utf-8")
    assert "Data Docs" not in render(healthy())


def test_an_unknown_rule_is_shown_without_its_prose():
    """A finding of a newer audit is not lost."""
    page = render(replace(healthy(), found=(finding(rule="unheard_of_rule"),)))
    assert "unheard_of_rule" in page


def test_a_scenario_is_shown_claim_by_claim():
    """What was seen and judged, what is missing, what was expected; nothing of it is markup."""
    seen = Seen("<b>hub</b>", 1_500_000, "waited 38 µs & went on")
    shown = ScenarioResult(
        name="log_status",
        design="WL#9452",
        title="Log Position Lock",
        claims=(
            ClaimResult("F-2.1", "No commit.", (seen,), (RuleCount("lsn_monotone", 3, 0, 1),)),
            ClaimResult("F-2.2", "No GTID.", (), (RuleCount("lsn_order", 0, 2, 0, 2),)),
        ),
        expected=(ExpectedFinding("hub", "lsn_monotone", "It warns.", 0),),
        others=(("hub", "lsn_order"),),
    )
    page = render(replace(healthy(), scenario=shown))
    assert "1.500 s, <bdi>&lt;b&gt;hub&lt;/b&gt;</bdi></span> waited 38 µs &amp; went on" in page
    assert "Audited: lsn_monotone held 3 times, undecided once." in page
    assert "Audited: lsn_order broken 2 times as expected, else never." in page
    assert "1 of 2 claims shown, 0 of 1 expected findings found, 1 other finding" in page
    for text in ("not shown", "not seen", "not found", "Not expected"):
        assert text in page
    assert "WL#9452" not in render(healthy())


def test_failed_expectations_are_listed_with_their_rows():
    """What Great Expectations said, by expectation and row."""
    cuts = [replace(cut, lsn=1) for cut in collection_cuts(2)]
    page = render(replace(healthy(), validation=CollectionValidator().validate(cuts)))
    assert "expect_lsn_order" in page
    assert "is beyond LSN 1 in" in page


@pytest.mark.parametrize("name", PAGES)
def test_nothing_from_outside_is_markup(name):
    """No script, no handler, no style or address but ours; nothing invisible."""
    page = render(PAGES[name]())
    tags, attributes = _Markup.of(page)
    assert not tags & {"script", "img", "iframe", "object", "embed", "base", "form", "input"}
    assert not {a for a in attributes if a.startswith("on") or a in ("style", "src", "action")}
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]", page
    )
    assert {h for h in re.findall(r'href="([^"]*)"', page) if not h.startswith("#finding-")} <= {
        "data:,",
        *(f"#{n}" for n in ("good", "open", "bad", "unknown", "dot-good", "dot-open", "dot-bad")),
    }
    page.encode("utf-8")


def test_a_long_report_stays_bounded():
    """Hundreds of findings of one kind do not make a page that nobody can open."""
    many = tuple(finding(instance_id=f"r-{n}") for n in range(3000))
    page = render(replace(healthy(60, 100), found=many))
    assert len(page) < 1_500_000
    assert "and 2\u202f975 more, in the JSON report" in page


@pytest.mark.chromium
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("name", PAGES)
def test_a_browser_shows_it_quietly_and_whole(browser, page, name, width, dark):
    """No console message, no request, nothing wider than the window, from a phone up."""
    path = page(PAGES[name]())
    browser.open(path, width, dark=dark)
    assert [url for url in browser.requests if url != path.as_uri() and url != "data:,"] == []
    assert browser.said == []
    assert browser.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    ink, paper = browser.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    # The style sheet got past its own policy, and follows the reader's choice.
    assert (sum(_rgb(ink)) > sum(_rgb(paper))) is dark


@pytest.mark.chromium
def test_hostile_names_are_inert_in_a_browser(browser, page):
    """They are there to be read, and they do nothing."""
    browser.open(page(hostile()), 1200)
    assert (
        browser.evaluate("document.querySelectorAll('script, img, iframe, [onload]').length") == 0
    )
    text = browser.evaluate("document.body.innerText")
    assert HOSTILE[0] in text
    assert HOSTILE[1] in text
    assert "evil⟨U+202E⟩gnp" in text
    assert browser.evaluate("document.title") == f"INCONSISTENT: {HOSTILE[0]}"


@pytest.mark.chromium
def test_verdicts_do_not_rest_on_colour_alone(browser, page):
    """Each verdict has a shape of its own and its word beside it."""
    browser.open(page(broken()), 1200)
    used = browser.evaluate(
        "[...new Set([...document.querySelectorAll('.badge')].map("
        "b => b.querySelector('use')?.getAttribute('href') + ' ' + b.innerText.trim()))]"
    )
    for verdict, shape in ((Verdict.CONSISTENT, "good"), (Verdict.UNDECIDED, "open")):
        assert f"#{shape} {verdict.value}" in used
    assert "#bad INCONSISTENT" in used


class _Markup(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.attributes = set(), set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    @classmethod
    def of(cls, html):
        parser = cls()
        parser.feed(html)
        return parser.tags, parser.attributes


def _rgb(colour):
    return [int(part) for part in re.findall(r"\d+", colour)[:3]]


def test_incidents_are_counted_by_what_has_become_of_them():
    """Those that are over are neither open nor acknowledged."""
    states = list(IncidentState)
    states += [IncidentState.OPEN, IncidentState.RESOLVED, IncidentState.RESOLVED]
    found = tuple(finding(at=f"c{n}", ts=START + n) for n in range(len(states)))
    incidents = list(map(incident, found, states))
    text = render(replace(broken(), found=found, incidents=incidents))
    assert "2 incidents are open." in text
    assert "1 acknowledged incident does not count." in text


def test_every_link_within_the_page_leads_somewhere():
    """Of a rule with many cases, whose later ones are only in the JSON report, to the rule."""
    found = tuple(
        finding(at=f"c{n}", ts=START + n, data=finding().data | {"source": f"s{n}"})
        for n in range(60)
    )
    incidents = [incident(one) for one in found]
    text = render(replace(broken(), found=found, incidents=incidents))
    ids = set(re.findall(r'\bid="([^"]+)"', text))
    links = re.findall(r'href="#([^"]+)"', text)
    assert set(links) <= ids
    assert f"rule-{found[0].rule}" in links
    assert f"finding-{found[0].finding_id}" in links


def test_what_came_with_each_collection_is_shown_once():
    """The newest one, and how often it came since when; what differs is shown on its own."""
    first = missing_answer("c0", "replica-1", START, None)[1]
    seen = [replace(first, collection_id=f"c{n}", at=f"c{n}", ts=START + n) for n in range(40)]
    other = replace(first, instance_id="replica-2")
    text = render(replace(healthy(), observations=[*seen, other]))
    assert 2 == text.count("<code>LOG_STATUS_MISSING</code>")
    assert "at <bdi><code>c39</code></bdi>" in text
    assert "; 40 times since 2026-01-01 00:00:00 UTC" in text


def test_an_observation_of_no_instance_is_of_the_fleet():
    """What Great Expectations, or the run, says of all."""
    text = render(replace(healthy(), observations=[observation(instance_id="")]))
    assert "<small>the fleet, at <bdi><code>c-000030</code></bdi>" in text
