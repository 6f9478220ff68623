// signin: the form that a stranger sees. Where one wanted to go stays in the address.

import { h, fill } from "./dom.js";
import { ask } from "./api.js";

export default function signIn(app, begin) {
  const error = h("p", { class: "soft", role: "alert" });
  const name = h("input", { name: "name", autocomplete: "username", required: true, autocapitalize: "none", spellcheck: "false" });
  const password = h("input", { name: "password", type: "password", autocomplete: "current-password", required: true });
  const button = h("button", { class: "primary" }, "Sign in");
  async function submit(event) {
    event.preventDefault();
    button.disabled = true;
    fill(error, "Asking the broker …");
    try {
      begin(await ask("POST", "/session", { body: { name: name.value, password: password.value } }));
    } catch (trouble) {
      password.value = "";
      fill(error, trouble.status === 401 ? "Wrong name or password." : trouble.message);
      button.disabled = false;
      password.focus();
    }
  }
  document.title = "Sign in · Covey";
  fill(app, h("main", { class: "sign-in" }, h("form", { class: "card", onsubmit: submit },
    h("div", { class: "brand" }, h("img", { src: new URL("icon.svg", import.meta.url).pathname, alt: "" }), h("h1", "Covey")),
    h("label", { class: "field" }, "Name", name),
    h("label", { class: "field" }, "Password", password),
    button, error)));
  name.focus();
}
