import { render } from "preact";
import { Api } from "./api.js";
import { App } from "./app.js";

const TOKEN = "waymark.token";

/** Takes the token out of the address bar, so that it is in no history and in no screenshot. */
function takeToken(): string {
  const [, token, rest = ""] = /^#token=([\w-]+)(.*)$/.exec(location.hash) ?? [];
  if (token !== undefined) {
    sessionStorage.setItem(TOKEN, token);
    history.replaceState(null, "", `#${rest === "" ? "/tasks" : rest.replace(/^&/, "")}`);
  }
  return sessionStorage.getItem(TOKEN) ?? "";
}

const root = document.querySelector("#app");
if (root !== null) render(<App api={new Api(takeToken())} />, root);
