
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const controls = byId("controls");
  const shown = byId("shown");
  const items = [...byId("timeline").children];
  const events = items.filter((item) => !item.classList.contains("divider"));
  const chosen = (name) => (byId("filter-" + name) || { value: "" }).value;

  const fitsOutcome = (item, wanted) => {
    const outcomes = (item.dataset.outcomes || "").split(" ").filter(Boolean);
    if (wanted === "=*") return outcomes.length > 0;
    if (wanted === "=!") return outcomes.some((outcome) => outcome !== "ok");
    return outcomes.includes(wanted.slice(1));
  };

  const filter = () => {
    const [outcome, type, kind] = ["outcome", "type", "kind"].map(chosen);
    const filtered = Boolean(outcome || type || kind);
    let count = 0;
    for (const item of items) {
      if (item.classList.contains("divider")) {
        item.hidden = filtered;
        continue;
      }
      const kinds = (item.dataset.kinds || "").split(" ");
      const fits =
        (!outcome || fitsOutcome(item, outcome)) &&
        (!type || item.dataset.type === type.slice(1)) &&
        (!kind || kinds.includes(kind.slice(1)));
      item.hidden = !fits;
      count += fits;
    }
    byId("nothing").hidden = count > 0;
    shown.textContent = filtered
      ? `${count.toLocaleString("en")} of ${events.length.toLocaleString("en")} shown`
      : `${events.length.toLocaleString("en")} ${events.length === 1 ? "event" : "events"}`;
  };

  // A link to an event that the filters hide shows everything again.
  const reveal = () => {
    const target = location.hash.length > 1 && byId(location.hash.slice(1));
    const item = target && target.closest("li");
    if (!item || !item.hidden) return;
    controls.reset();
    filter();
    target.scrollIntoView();
  };

  const copy = async (button) => {
    const digest = button.dataset.copy;
    try {
      await navigator.clipboard.writeText(digest);
    } catch {
      const range = document.createRange();
      range.selectNodeContents(button.querySelector("code"));
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      if (!document.execCommand("copy")) return;
    }
    button.classList.add("copied");
    setTimeout(() => button.classList.remove("copied"), 1400);
  };

  // An image that was shown before is in the file once; later places borrow it.
  for (const image of document.querySelectorAll("img[data-same]")) {
    const first = document.querySelector(`#${CSS.escape(image.dataset.same)} .thumb img`);
    if (first) image.src = first.src;
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-copy]");
    if (button) copy(button);
  });
  if (controls) {
    controls.hidden = false;
    controls.addEventListener("change", filter);
    controls.addEventListener("submit", (event) => event.preventDefault());
    addEventListener("hashchange", reveal);
    filter(); // a reloaded page may come with filters already chosen
  }
})();
