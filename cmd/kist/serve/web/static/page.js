// Makes the pages more comfortable. Everything also works without this script.

const typing = (node) => node.closest("input, select, textarea, [contenteditable]");

// rows returns the rows that the keys move between.
const rows = () => [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent);

// move focuses the link of the row that is step rows away.
function move(step) {
  const all = rows();
  if (!all.length) return;
  const now = all.indexOf(document.activeElement?.closest("[data-row]"));
  const next = all[Math.min(all.length - 1, Math.max(0, now < 0 ? 0 : now + step))];
  next.querySelector("[data-open], a")?.focus();
  next.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  switch (event.key) {
    case "/":
      document.querySelector("#q, #quick")?.focus();
      break;
    case "j":
      move(1);
      break;
    case "k":
      move(-1);
      break;
    case "ArrowDown":
    case "ArrowUp":
      if (!event.target.closest("[data-row]")) return; // the page scrolls
      move(event.key === "ArrowDown" ? 1 : -1);
      break;
    default:
      return;
  }
  event.preventDefault();
});

// A choice takes effect at once. Its button is only for pages without scripts.
for (const select of document.querySelectorAll("select[data-submit]")) {
  select.form.querySelector("button").hidden = true;
  select.addEventListener("change", () => select.form.submit());
}

// An address can name a line in a part of the file that the page does not have. A server does not get
// the name of the line, so the page asks for the part.
function findLine() {
  const line = /^#L(\d+)$/.exec(location.hash)?.[1];
  if (!line || document.getElementById("L" + line)) return;
  const address = new URL(location.href);
  if (document.querySelector(".markdown, .sheet")) address.searchParams.set("as", "source"); // only a text has lines
  else if (!document.querySelector(".lines")) return;
  const start = String(Math.max(1, line - 20));
  if (address.searchParams.get("start") === start) return; // the file has no such line
  address.searchParams.set("start", start);
  location.replace(address);
}

if (location.pathname.startsWith("/blob/") || location.pathname.startsWith("/blame/")) {
  findLine();
  addEventListener("hashchange", findLine);
}

// The slider replaces the shown version by the one at its place. The page of that version
// comes from the server.
let wanted = 0;

async function showVersion(number) {
  const address = new URL(location.href);
  address.searchParams.set("at", number);
  const turn = ++wanted;
  const answer = await fetch(address, { credentials: "same-origin" });
  const text = await answer.text();
  if (turn !== wanted || !answer.ok) return;
  const next = new DOMParser().parseFromString(text, "text/html");
  const focused = document.activeElement?.id;
  for (const part of ["#version", ".versions"]) {
    const fresh = next.querySelector(part);
    if (fresh) document.querySelector(part).replaceWith(document.adoptNode(fresh));
  }
  history.replaceState(null, "", address);
  prepareSlider();
  if (focused === "slider") document.querySelector("#slider").focus();
}

function prepareSlider() {
  const slider = document.querySelector("#slider");
  if (!slider || slider.max === "1") return;
  slider.hidden = false;
  slider.addEventListener("input", () => showVersion(slider.value));
}

prepareSlider();
