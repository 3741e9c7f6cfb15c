// The page shows the samples of one language, which the reader chooses. On a small window a button opens the contents.
const root = document.documentElement;
const choices = [...document.querySelectorAll("[data-show]")];
const menu = document.getElementById("menu");
const contents = document.getElementById("contents");

const show = (language) => {
  root.dataset.language = language;
  for (const choice of choices) choice.setAttribute("aria-pressed", String(choice.dataset.show === language));
};

const open = (isOpen) => {
  menu.setAttribute("aria-expanded", String(isOpen));
  contents.classList.toggle("open", isOpen);
};

root.classList.add("scripted");
for (const choice of choices) {
  choice.addEventListener("click", () => {
    show(choice.dataset.show);
    try {
      localStorage.setItem("examprep-samples", choice.dataset.show);
    } catch {
      // The browser stores nothing for this page; the choice holds until it closes.
    }
  });
}
try {
  const stored = localStorage.getItem("examprep-samples");
  if (choices.some((choice) => choice.dataset.show === stored)) show(stored);
} catch {
  // The browser stores nothing for this page.
}
menu.addEventListener("click", () => open(menu.getAttribute("aria-expanded") !== "true"));
contents.addEventListener("click", (event) => {
  if (event.target.closest("a")) open(false);
});
contents.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !contents.classList.contains("open")) return;
  open(false);
  menu.focus();
});
