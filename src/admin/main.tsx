/** The entry point of the admin page: connects to REST and renders the page. */
import { render } from "preact"
import { createApi, keepKeyOfLink } from "./api.ts"
import { App } from "./app.tsx"
import { Context } from "./context.ts"
import { createLive } from "./live.ts"
import { createStore } from "./store.ts"
import { EMPTY_STATE } from "./types.ts"
import { createUi } from "./ui.ts"

const root = document.getElementById("app")
if (root === null) throw new Error("index.html has no element #app")
keepKeyOfLink(localStorage)
const api = createApi(new URL("../api/v1", location.origin + location.pathname).pathname, localStorage)
const store = createStore(EMPTY_STATE)
const live = createLive(api, store)
render(
  <Context value={{ api, store, live, ui: createUi() }}>
    <App />
  </Context>,
  root,
)
live.start()
