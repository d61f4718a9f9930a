"""The frame: keys, tabs, languages, themes, links, help, messages, and texts of strangers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import axe
import pytest
from fakes import open_fake
from looks import every_look

SCREENS = ("home", "overview", "map", "flow")
NAMES = {
    "en": {"home": "Texts", "overview": "Overview", "map": "Map", "flow": "Flow"},
    "zh": {"home": "文本", "overview": "总览", "map": "注意力图", "flow": "信息流"},
}
TEXT_KEY = r"\b(shell|home|overview|map|flow|kind|stat|palette)\.[a-z_]+(\.[a-z_]+)*\b"


def hash_of(page: Any) -> str:
    return str(page.evaluate("location.hash"))


def settled(page: Any, wanted: str) -> None:
    """Wait until the link holds something; the app writes it a moment after a change."""
    page.wait_for_function("wanted => location.hash.includes(wanted)", arg=wanted)


@every_look
@pytest.mark.parametrize("screen", SCREENS)
def test_every_screen_is_readable(
    open_app: Callable[..., Any], screen: str, language: str, theme: str
) -> None:
    page = open_app(f"#{screen}/llama-short/1.2?q=20")
    page.wait_for_selector(f".screen.{screen}:not([hidden])")
    page.wait_for_timeout(600)
    tab = page.get_by_role("tab", name=NAMES[language][screen], exact=True)
    assert tab.get_attribute("aria-selected") == "true"
    assert page.locator("#attnscope").get_attribute("data-scheme") == theme
    drawn = {  # what each screen shows when it is whole
        "home": "table tbody tr", "overview": "[role=gridcell]", "flow": ".later tbody tr",
        "map": ".map-figure[data-pending='0']",
    }  # fmt: skip
    page.wait_for_selector(f".screen.{screen} {drawn[screen]}")
    text = page.locator("#attnscope").inner_text()
    assert "\ufffd" not in text
    assert page.evaluate("([text, key]) => new RegExp(key).exec(text)", [text, TEXT_KEY]) is None
    assert axe.faults(page) == []


@every_look
def test_dialogs_and_panels_are_readable(
    open_app: Callable[..., Any], language: str, theme: str
) -> None:
    page = open_app("#overview/llama-short/1.2")
    page.wait_for_selector("[role=gridcell]")
    page.locator("[role=gridcell][tabindex='0']").press("ArrowRight")
    page.wait_for_selector(".detail canvas")
    assert axe.faults(page) == []
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    assert axe.faults(page) == []


def test_axe_would_find_a_fault(page: Any) -> None:
    open_fake(page, "#overview/made")
    page.wait_for_selector("[role=gridcell]")
    page.evaluate("document.querySelector('.switches .theme').removeAttribute('aria-label')")
    page.evaluate("document.querySelector('.switches .theme').removeAttribute('title')")
    assert any("button-name" in one for one in axe.faults(page))


def test_help_lists_every_key_of_every_screen_and_closes(page: Any) -> None:
    open_fake(page, "#overview/made")
    page.wait_for_selector("[role=gridcell]")
    page.keyboard.press("?")
    help_dialog = page.get_by_role("dialog", name="Keyboard")
    assert help_dialog.is_visible()
    listed = help_dialog.locator("section h3").all_inner_texts()
    assert listed == ["Everywhere", "Texts", "Overview", "Map", "Flow"]
    keys = help_dialog.locator("kbd").all_inner_texts()
    # What UX.md promises.
    for key in ("←", "Shift+←", "W", "+", "/", "F", "C", "?", "Esc"):
        assert any(key in one for one in keys), key
    assert axe.faults(page) == []
    page.keyboard.press("Escape")
    assert not help_dialog.is_visible()


def test_digits_and_tabs_change_the_screen(page: Any) -> None:
    open_fake(page, "#overview/made")
    page.wait_for_selector("[role=gridcell]")
    for key, screen in [("4", "flow"), ("3", "map"), ("1", "home"), ("2", "overview")]:
        page.keyboard.press(key)
        page.wait_for_selector(f".screen.{screen}:not([hidden])")
        assert hash_of(page).startswith(f"#{screen}/made")
    page.get_by_role("tab", name="Overview").focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("tab", name="Map").evaluate("e => e === document.activeElement")
    settled(page, "map/made")
    page.keyboard.press("End")
    settled(page, "flow/made")


def test_keys_typed_into_fields_stay_there(page: Any) -> None:
    open_fake(page, "#flow/made", capture="done")
    page.wait_for_selector("[data-token]")
    field = page.get_by_label("Find in the text")
    field.focus()
    page.keyboard.type("2?m[,e/")
    assert field.input_value() == "2?m[,e/"
    assert hash_of(page).startswith("#flow/made")
    assert not page.locator("dialog").is_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("1")
    area = page.get_by_label("Text", exact=True)
    area.focus()
    page.keyboard.type("4 words? [1]")
    assert area.input_value() == "4 words? [1]"
    assert hash_of(page).startswith("#home")


def test_keys_with_a_modifier_are_the_browsers(page: Any) -> None:
    open_fake(page, "#overview/made")
    page.wait_for_selector("[role=gridcell]")
    page.evaluate("""addEventListener("keydown", e => (window.prevented = e.defaultPrevented))""")
    page.keyboard.press("Control+4")
    assert page.evaluate("window.prevented") is False
    page.keyboard.press("Alt+3")
    assert hash_of(page).startswith("#overview/made")


def test_language_and_theme_can_be_switched_and_are_in_the_link(page: Any) -> None:
    open_fake(page, "#flow/made/1.2?q=30")
    page.wait_for_selector("[data-token]")
    page.get_by_role("button", name="中文").press("Enter")
    settled(page, "lang=zh")
    assert page.get_by_role("tab", name="信息流").get_attribute("aria-selected") == "true"
    assert page.evaluate("document.documentElement.lang") == "zh-Hans"
    # The focus stays on the switch, and the chosen token stays chosen.
    assert page.evaluate("document.activeElement.textContent") == "English"
    assert page.locator(".token.chosen").count() > 0
    page.get_by_role("button", name="主题：跟随系统").click()
    page.get_by_role("button", name="主题：浅色").click()
    settled(page, "theme=dark")
    assert page.locator("#attnscope").get_attribute("data-scheme") == "dark"
    ground = page.evaluate("getComputedStyle(document.getElementById('attnscope')).backgroundColor")
    assert ground == "rgb(18, 20, 23)"


def test_the_theme_follows_the_system_while_it_is_open(page: Any) -> None:
    open_fake(page, "#overview/made")
    page.wait_for_selector("[role=gridcell]")
    root = page.locator("#attnscope")
    assert root.get_attribute("data-scheme") == "light"
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("#attnscope[data-scheme=dark]")


LINK = "flow/made/1.2?q=30-33&k=7&mass=0.75&how=mean&measure=arrived&lang=zh&theme=dark"


def settle(page: Any) -> None:
    """Wait until the side says nothing new for a while: its parts come one after the other."""
    before, same = "", 0
    while same < 5:
        page.wait_for_timeout(100)
        shown = page.locator(".side").inner_text()
        same, before = (same + 1 if shown == before else 0), shown


def test_a_link_reopens_exactly_the_view(page: Any) -> None:
    open_fake(page, "#" + LINK)
    page.wait_for_selector(".keys table")
    settle(page)
    first = page.evaluate("JSON.stringify(window.attnscopeApp.store.get())")
    shown = page.locator(".side").inner_text()
    assert set(hash_of(page).split("?")[1].split("&")) == set(LINK.split("?")[1].split("&"))
    open_fake(page, hash_of(page))
    page.wait_for_selector(".keys table")
    settle(page)
    assert page.evaluate("JSON.stringify(window.attnscopeApp.store.get())") == first
    assert page.locator(".side").inner_text() == shown


def test_back_and_forward_go_through_screens(page: Any) -> None:
    open_fake(page, "#overview/made")
    page.wait_for_selector("[role=gridcell]")
    page.keyboard.press("4")
    page.wait_for_selector(".screen.flow:not([hidden])")
    page.go_back()
    page.wait_for_selector(".screen.overview:not([hidden])")
    page.go_forward()
    page.wait_for_selector(".screen.flow:not([hidden])")


@pytest.mark.parametrize(
    "view",
    [
        "#map/made/x.y?q=-1&k=5-1&view=NaN,1,1",
        "#overview/made/0.1?statistic=__proto__&top=-1&with=../x/1.1",
        "#flow/made?q=4000000000&mass=9",
        "#javascript:alert(1)",
    ],
)
def test_a_damaged_link_opens_what_can_be_opened(page: Any, view: str) -> None:
    open_fake(page, view)
    page.wait_for_selector(".screen:not([hidden])")
    page.wait_for_timeout(300)
    assert page.evaluate("window.attnscopeApp.store.get().trace") == "made"
    assert page.locator(".message").count() == 0


def test_a_trace_that_is_not_open_is_said_and_the_message_can_be_closed(page: Any) -> None:
    open_fake(page, "#map/elsewhere/1.1?lang=en")
    message = page.get_by_role("alert")
    assert message.inner_text().startswith("The link names a captured text that is not open here")
    page.get_by_role("button", name="Close").click()
    assert page.locator(".message").count() == 0
    page.wait_for_url("**#map/made/**")  # the address is written a moment later


@pytest.mark.parametrize(
    ("view", "said"),
    [
        (
            "#map/made/99.99?lang=en&q=9999",
            "The link names what this text does not have: a map of layer 99, query 9999.",
        ),
        (
            "#flow/made/1.99?lang=en&q=7&k=8-4000",
            "The link names what this text does not have: head 99 of layer 1, key 8–4000.",
        ),
        (
            "#map/made/99.99?lang=zh&q=9999",
            "链接指向了这个文本里没有的内容：第 99 层的注意力图、query 9999。",
        ),
    ],
)
def test_a_link_to_what_a_text_does_not_have_says_so(page: Any, view: str, said: str) -> None:
    def told() -> None:
        message = page.get_by_role("alert").first
        message.wait_for()
        assert message.inner_text().startswith(said)
        state = page.evaluate("window.attnscopeApp.store.get()")
        assert state["head"] in (None, 0)
        assert state["queries"] in (None, [7, 7])
        assert page.locator(".message").count() == 1

    open_fake(page, view)
    told()
    # The same link pasted where the text is open already.
    open_fake(page, "#flow/made/1.1?lang=en&q=5")
    page.wait_for_selector(".keys tbody tr")
    assert page.locator(".message").count() == 0
    page.evaluate("view => { location.hash = view; }", view)
    told()
    screen = "flow" if "flow" in view else "map"
    page.wait_for_selector(f".screen.{screen}:not([hidden])")


def test_escape_closes_the_last_message(page: Any) -> None:
    open_fake(page, "#overview/elsewhere?lang=en")
    page.get_by_role("alert").wait_for()
    page.keyboard.press("Escape")
    assert page.locator(".message").count() == 0


EVIL = "<img src=x onerror='window.broken=1'><script>window.broken=1</script>"


@pytest.mark.parametrize("screen", SCREENS)
def test_script_in_tokens_and_names_does_not_run(page: Any, screen: str) -> None:
    open_fake(page, f"#{screen}/made/1.2?q=110", name=EVIL)
    page.wait_for_selector(f".screen.{screen}:not([hidden])")
    page.wait_for_timeout(500)
    assert page.evaluate("window.broken") is None
    assert EVIL in page.locator(".picker option").inner_text()
    assert page.locator("#attnscope img, #attnscope script").count() == 0
    if screen == "flow":
        assert "<script>" in page.locator(".lines").inner_text()


def test_two_apps_on_one_page_do_not_meet(page: Any) -> None:
    open_fake(page, "#overview/made")
    page.wait_for_selector("[role=gridcell]")
    page.evaluate(
        """async () => {
            const { start } = await import("./static/js/main.js");
            const { fakeSource } = await import("./unit/fake_trace.js");
            for (const id of ["one", "two"]) {
                const place = Object.assign(document.createElement("div"), { id });
                place.style.height = "600px";
                document.body.append(place);
                window[id] = start(place, fakeSource({}), { view: { language: "en" } });
            }
        }"""
    )
    page.wait_for_selector("#two [role=gridcell]")
    before = hash_of(page)
    page.locator("#two [role=gridcell][tabindex='0']").focus()
    page.keyboard.press("4")
    page.wait_for_selector("#two .screen.flow:not([hidden])")
    assert page.locator("#one .screen.overview:not([hidden])").count() == 1
    assert page.locator("#attnscope .screen.overview:not([hidden])").count() == 1
    assert hash_of(page) == before
    page.evaluate("window.two.stop()")
    assert page.locator("#two").inner_html() == ""


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_phone_shows_every_screen_without_scrolling_sideways(
    page: Any, screen: str, language: str
) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    open_fake(page, f"#{screen}/made/1.2?q=30", capture="done", layers=12, heads=8)
    page.wait_for_selector(f".screen.{screen}:not([hidden])")
    page.wait_for_timeout(400)
    wide = "e => e.scrollWidth - e.clientWidth"
    assert page.locator(".stage").evaluate(wide) <= 0
    assert page.locator(".head").evaluate(wide) <= 0


@pytest.mark.parametrize("width", [800, 968, 1280])  # 968: a cell of JupyterLab beside its files
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_header_is_one_line_where_it_can_be(page: Any, width: int, language: str) -> None:
    page.set_viewport_size({"width": width, "height": 700})
    open_fake(page, "#overview/made", name="a model with a rather long name")
    page.wait_for_selector("[role=gridcell]")
    assert page.locator(".head").bounding_box()["height"] < 60


def test_the_app_starts_on_any_size_of_page(page: Any) -> None:
    page.set_viewport_size({"width": 3840, "height": 2160})
    open_fake(page, "#overview/made", layers=30, heads=16)
    page.wait_for_selector("[role=gridcell]")
    box = page.locator(".field-of-heads canvas").bounding_box()
    assert box["width"] > 1000
