// Asks for the page again, and replaces the parts that have changed. Everything works without it.
"use strict";

const EVERY_MS = 2000;
const LOST_AFTER_MS = 15000;
const isLive = () => document.getElementById("age") !== null;
let tag = null;
let answeredAt = Date.now();
let ageS = null;

function addButtons(within) {
  for (const pre of within.querySelectorAll("pre")) {
    if (pre.parentElement.className === "copied") continue;
    const line = document.createElement("div");
    line.className = "copied";
    pre.replaceWith(line);
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", () => copy(pre, button));
    line.append(pre, button);
  }
}

async function copy(pre, button) {
  try {
    await navigator.clipboard.writeText(pre.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(pre);
    button.textContent = "Selected";
  }
}

// What a reader has opened, typed or focused stays.
function keep(old, made) {
  const opened = old.querySelectorAll("details");
  made.querySelectorAll("details").forEach((one, n) => {
    if (opened[n] && opened[n].firstElementChild.textContent === one.firstElementChild.textContent) {
      one.open = opened[n].open;
    }
  });
}

function replaceParts(made) {
  const main = document.querySelector("main");
  const parts = ["masthead", "verdict", "pages", "numbers"];
  for (const section of made.querySelectorAll("main > section[id]")) parts.push(section.id);
  for (const section of document.querySelectorAll("main > section[id]")) {
    if (!made.getElementById(section.id)) section.remove();
  }
  let previous = null;
  for (const id of parts) {
    const fresh = made.getElementById(id);
    const old = document.getElementById(id);
    if (!fresh) continue;
    const source = fresh.outerHTML;
    if (!old) {
      addButtons(fresh);
      if (previous) previous.after(fresh); else main.append(fresh);
      fresh.source = source;
      previous = fresh;
      continue;
    }
    if ((old.source ?? null) !== source) {
      const focused = old.contains(document.activeElement) ? document.activeElement : null;
      const at = focused ? [...old.querySelectorAll("a, summary, button")].indexOf(focused) : -1;
      keep(old, fresh);
      addButtons(fresh);
      old.replaceWith(fresh);
      fresh.source = source;
      if (at >= 0) fresh.querySelectorAll("a, summary, button")[at]?.focus({ preventScroll: true });
    }
    previous = document.getElementById(id);
  }
  document.title = made.title;
}

function showAge() {
  const age = document.getElementById("age");
  if (!age) return;
  const lost = Date.now() - answeredAt;
  if (lost > LOST_AFTER_MS) {
    age.textContent = `no answer from the server for ${Math.round(lost / 1000)} s`;
    const verdict = document.getElementById("verdict");
    if (!verdict.classList.contains("lost")) {
      verdict.className = "verdict open lost";
      verdict.querySelector("use").setAttribute("href", "#open");
      verdict.querySelector(".word").textContent = "UNDECIDED";
      const text = document.createElement("p");
      text.textContent = "The page's server does not answer: what is below is old.";
      verdict.querySelector(".word").after(text);
      verdict.source = null;
      document.title = "UNDECIDED: no answer";
      tag = null;
    }
  } else if (ageS !== null) {
    age.textContent = `newest collection written ${Math.round(ageS + lost / 1000)} s ago`;
  }
}

async function ask() {
  if (!isLive()) return;
  const headers = tag === null ? {} : { "If-None-Match": tag };
  try {
    const answer = await fetch(location.pathname + location.search, {
      headers, cache: "no-store", signal: AbortSignal.timeout(60000),
    });
    if (answer.status === 401) return location.reload();
    if (answer.status === 200) {
      const text = await answer.text();
      replaceParts(new DOMParser().parseFromString(text, "text/html"));
      tag = answer.headers.get("ETag");
    } else if (answer.status !== 304) {
      return;
    }
    answeredAt = Date.now();
    const age = answer.headers.get("Tallystick-Age");
    ageS = age === null ? null : Number(age);
  } catch {
    // The page counts how long it has had no answer.
  } finally {
    showAge();
  }
}

async function follow() {
  await ask();
  setTimeout(follow, EVERY_MS);
}

for (const part of document.querySelectorAll("#masthead, #verdict, #pages, #numbers, main > section[id]")) {
  part.source = part.outerHTML;
}
addButtons(document);
setInterval(showAge, 1000);
document.addEventListener("visibilitychange", () => document.hidden || ask());
follow();
