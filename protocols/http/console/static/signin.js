// signin: the form that a stranger sees. Where one wanted to go stays in the address.

import { h, fill } from "./dom.js";
import { ask } from "./api.js";

/** Put the form into a place; `known` is who was signed in until now, and goes on where they were. */
export default function signIn(place, begin, known = "") {
  const error = h("p", { class: "soft", role: "alert" });
  const name = h("input", { name: "name", autocomplete: "username", required: true, autocapitalize: "none", spellcheck: "false", value: known });
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
  const form = h("form", { class: known ? null : "card", onsubmit: submit },
    h("div", { class: "brand" }, h("img", { src: new URL("icon.svg", import.meta.url).pathname, alt: "" }), h("h1", known ? "Sign in to go on" : "Covey")),
    h("label", { class: "field" }, "Name", name),
    h("label", { class: "field" }, "Password", password),
    button, error);
  fill(place, known ? form : h("main", { class: "sign-in" }, form));
  (known ? password : name).focus();
}
