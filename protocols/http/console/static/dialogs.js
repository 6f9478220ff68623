// dialogs: a question before something goes, a form, and a word afterwards.

import { h, fill, push } from "./dom.js";

const LATE_MS = 1000;

/** Tell in a corner what was done, or why not. */
export function toast(text, isBad = false) {
  let corner = document.querySelector(".toasts");
  if (!corner) { corner = h("div", { class: "toasts", role: "status", "aria-live": "polite" }); document.body.append(corner); }
  const note = h("div", { class: `toast${isBad ? " bad" : ""}` }, text);
  corner.append(note);
  setTimeout(() => note.remove(), isBad ? 9000 : 4000);
}

/**
 * Show a form until it is sent or left. `act` gets its values; what `act` throws is shown in the
 * form, which stays. Returns what `act` returned, undefined if the form was left.
 */
export function form({ title, text, fields = [], button = "OK", danger = false, act }) {
  return new Promise((resolve) => {
    const error = h("p", { class: "error", role: "alert" });
    const controls = new Map();
    const inside = fields.map((field) => (field instanceof Node ? field : control(field, controls)));
    const send = h("button", { class: `primary${danger ? " danger" : ""}` }, button);
    const leave = push("Cancel", () => dialog.close());
    let result;
    const dialog = h("dialog", { "aria-labelledby": "dialog-title" },
      h("form", { method: "dialog", onsubmit: submit },
        h("h1", { id: "dialog-title" }, title),
        text ? h("div", { class: "text" }, text) : null, inside, error,
        h("footer", leave, send)));
    async function submit(event) {
      event.preventDefault();
      send.disabled = true;
      fill(error);
      const late = setTimeout(() => fill(error, "This takes a while. You may leave this form meanwhile."), LATE_MS);
      try {
        result = await act(Object.fromEntries([...controls].map(([name, read]) => [name, read()]))) ?? true;
        dialog.close();
      } catch (trouble) {
        fill(error, trouble.message);
        send.disabled = false;
      } finally { clearTimeout(late); }
    }
    dialog.addEventListener("close", () => { dialog.remove(); resolve(result); });
    document.body.append(dialog);
    dialog.showModal();
    (dialog.querySelector("input, select, textarea") ?? (danger ? leave : send)).focus();
  });
}

/** Show something to look at, with what can be done about it, until it is left. */
export function sheet(title, ...content) {
  const dialog = h("dialog", { "aria-labelledby": "sheet-title" }, h("form", { method: "dialog" },
    h("h1", { id: "sheet-title" }, title), content, h("footer", h("button", "Close"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Make a field; `controls` gets a function that reads its value. */
export function control(field, controls) {
  const { name, label, help, type = "text", value = "", options } = field;
  if (type === "check") {
    const box = h("input", { type: "checkbox", checked: Boolean(value), name });
    controls.set(name, () => box.checked);
    return h("label", { class: "check" }, box, label);
  }
  let input;
  if (options) input = h("select", { name }, options.map((option) => {
    const [key, shown] = Array.isArray(option) ? option : [option, option];
    return h("option", { value: key, selected: key === value }, shown);
  }));
  else if (type === "area") input = h("textarea", { name, value, spellcheck: "false", placeholder: field.hint ?? null });
  else input = h("input", { name, type, value, required: field.required, placeholder: field.hint ?? null, autocomplete: "off", min: field.min ?? null, max: field.max ?? null, step: type === "number" ? "any" : null });
  controls.set(name, () => input.value);
  return h("label", { class: "field" }, label, input, help ? h("small", help) : null);
}

/** Ask before something goes; the text names what goes. */
export function confirm({ title, text, button, act, done }) {
  return form({ title, text, button, danger: true, act: async () => {
    const answer = await act();
    if (done) toast(typeof done === "function" ? done(answer) : done);
    return answer ?? true;
  } });
}

/** Do something at once, and say what became of it. */
export async function perform(act, done) {
  try {
    const answer = await act();
    if (done) toast(typeof done === "function" ? done(answer) : done);
    return answer ?? true;
  } catch (trouble) {
    toast(trouble.message, true);
    return undefined;
  }
}
