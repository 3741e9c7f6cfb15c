package browsertest

import (
	"encoding/json"
	"fmt"

	"examprep.dev/server/testkit/check"
)

// finder finds the first thing of a role and a name, as assistive software has them. An open dialog hides the page behind it. A
// name matches from its beginning.
const finder = `
const area = () => [...document.querySelectorAll('dialog')].filter(d => d.open && d.matches(':modal')).pop() ?? document;
const selectors = {
	button: 'button, summary, [role=button]', link: 'a[href]', field: 'input, textarea, select', heading: 'h1, h2, h3',
	row: 'tr, li, article', tab: '[role=tab]',
};
const labelOf = e => e.getAttribute('aria-label') ??
	(e.getAttribute('aria-labelledby')?.split(' ').map(id => document.getElementById(id)?.textContent).join(' ')) ??
	(e.labels?.length ? [...e.labels].map(l => l.innerText).join(' ') : e.innerText);
const nameOf = e => (labelOf(e) ?? '').replace(/\s+/g, ' ').trim();
const shows = e => e.checkVisibility({visibilityProperty: true});
const find = (role, name, within) => {
	let areas = [area()];
	if (within) areas = [...area().querySelectorAll(selectors.row)].filter(e => shows(e) && e.innerText.includes(within));
	for (const a of areas)
		for (const e of a.querySelectorAll(selectors[role]))
			if (shows(e) && nameOf(e).startsWith(name)) return e;
	return null;
};
const loads = path => performance.getEntriesByType('resource').filter(e => new URL(e.name).pathname === path && e.responseStatus === 200).length;
const until = look => new Promise(resolve => {
	const again = () => { const found = look(); found ? resolve(found) : requestAnimationFrame(again); };
	again();
});`

// inPage returns an expression that waits until look, an expression with the finder's functions, has a value, and returns it.
func inPage(look string, args ...any) string {
	texts := make([]any, len(args))
	for i, arg := range args {
		text, _ := json.Marshal(arg)
		texts[i] = string(text)
	}
	return fmt.Sprintf("(() => {%s\nreturn until(() => (%s))})()", finder, fmt.Sprintf(look, texts...))
}

// see waits until the window shows a text.
func (w *window) see(text string) {
	w.t.Helper()
	evaluate[bool](w, inPage(`document.body.innerText.includes(%s)`, text))
}

// seeIn waits until a row shows two texts.
func (w *window) seeIn(row, text string) {
	w.t.Helper()
	evaluate[bool](w, inPage(`[...document.querySelectorAll(selectors.row)].some(e => shows(e) && e.innerText.includes(%s) && e.innerText.includes(%s))`,
		row, text))
}

// hear waits until a notice had a text. Notices go by themselves, so it may be gone.
func (w *window) hear(text string) {
	w.t.Helper()
	evaluate[bool](w, inPage(`window.said.some(notice => notice.includes(%s))`, text))
}

// miss waits until nothing shows a text.
func (w *window) miss(text string) {
	w.t.Helper()
	evaluate[bool](w, inPage(`!document.body.innerText.includes(%s)`, text))
}

// press waits until a thing exists, can be used, and nothing lies over its middle. In the same moment it clicks so many times: a
// page whose parts still move cannot put something else there.
func (w *window) press(role, name, within string, times int) {
	w.t.Helper()
	evaluate[bool](w, inPage(`(() => {
		const e = find(%s, %s, %s);
		if (!e || e.disabled || e.getAttribute('aria-disabled') === 'true') return false;
		e.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
		const r = e.getClientRects()[0];
		if (!r) return false;
		const top = document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2);
		if (!top || !(e.contains(top) || top.contains(e) || top.closest('label')?.control === e)) return false;
		e.focus();
		for (let i = 0; i < %s; i++) e.click();
		return true;
	})()`, role, name, within, times))
}

// click clicks on a thing.
func (w *window) click(role, name string) {
	w.t.Helper()
	w.press(role, name, "", 1)
}

// clickIn clicks on a thing in the row that has a text.
func (w *window) clickIn(role, name, within string) {
	w.t.Helper()
	w.press(role, name, within, 1)
}

// clickTwice clicks twice, faster than the page can change, as a person who is not sure.
func (w *window) clickTwice(role, name, within string) {
	w.t.Helper()
	w.press(role, name, within, 2)
}

// doubleClick clicks on a thing with the mouse, as press would, and again on the same place after between. The browser takes both for
// one double click. It returns how many requests the second click sent.
func (w *window) doubleClick(name, within string, between func()) int {
	w.t.Helper()
	place := evaluate[struct{ X, Y float64 }](w, inPage(`(() => {
		const e = find('button', %s, %s);
		if (!e || e.getAttribute('aria-disabled') === 'true') return null;
		e.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
		const r = e.getBoundingClientRect(), place = {X: r.x + r.width / 2, Y: r.y + r.height / 2};
		return e.contains(document.elementFromPoint(place.X, place.Y)) ? place : null;
	})()`, name, within))
	evaluate[bool](w, `(() => {
		const send = (window.sentBefore ??= window.fetch);
		window.sent = [];
		window.fetch = (...args) => (window.sent.push(args[1].method), send(...args));
		return true;
	})()`)
	w.mouse(place.X, place.Y, 1)
	between()
	const changes = `window.sent.filter(method => method !== 'GET').length`
	before := evaluate[int](w, changes)
	check.Equal(w.t, before, 1, "requests of the first click")
	w.mouse(place.X, place.Y, 2)
	return evaluate[int](w, changes) - before
}

// open clicks on a button that opens a dialog, and waits for the dialog.
func (w *window) open(name, within string) {
	w.t.Helper()
	w.clickIn("button", name, within)
	evaluate[bool](w, inPage(`area() !== document`))
}

// fill replaces the text of a field.
func (w *window) fill(label, text string) {
	w.t.Helper()
	w.click("field", label)
	evaluate[bool](w, inPage(`(document.activeElement.select?.(), true)`))
	w.insert(text)
}

// tick sets a box or a choice by clicking on it, unless it is set.
func (w *window) tick(label string) {
	w.t.Helper()
	if evaluate[string](w, inPage(`(e => e && (e.checked ? 'set' : 'empty'))(find('field', %s, ''))`, label)) == "empty" {
		w.click("field", label)
	}
}

// value returns the text of the first element of a CSS selector, once it has one.
func (w *window) value(selector string) string {
	w.t.Helper()
	return evaluate[string](w, inPage(`(e => e && (e.value ?? e.innerText).trim())(area().querySelector(%s))`, selector))
}

// missThing waits until there is no thing of a role and a name.
func (w *window) missThing(role, name string) {
	w.t.Helper()
	evaluate[bool](w, inPage(`!find(%s, %s, '')`, role, name))
}

// settle waits until no request of the page is under way.
func (w *window) settle() {
	w.t.Helper()
	evaluate[bool](w, inPage(`window.underWay === 0`))
}

// awaitLoad waits until the page has received one more response 200 of a path, which cause brings about.
func (w *window) awaitLoad(path string, cause func()) {
	w.t.Helper()
	before := evaluate[int](w, inPage(`[loads(%s)]`, path)+`.then(([n]) => n)`)
	cause()
	evaluate[bool](w, inPage(`loads(%s) > %s`, path, before))
}
