/** The frame of the page: navigation, the current view, notices and questions. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks"
import { useApp, useStateOf } from "./context.ts"
import { useAction } from "./hooks.ts"
import { Keys, Palette } from "./palette.tsx"
import { Button, Dialog, DialogStack, Failure, Notices } from "./parts.tsx"
import { linkTo, useRoute } from "./router.ts"
import { useSelected } from "./store.ts"
import { LoginView } from "./views/login.tsx"
import { VIEWS, type View } from "./views.ts"

/** The whole page. */
export function App() {
  const phase = useStateOf((state) => state.phase)
  const [overlay, setOverlay] = useState<Overlay>()
  useShortcuts(setOverlay)
  const close = () => setOverlay(undefined)
  return (
    <DialogStack>
      <button type="button" class="skip" onClick={() => document.getElementById("main")?.focus()}>
        Skip to content
      </button>
      {phase === "login" ? <LoginView /> : <Frame onJump={() => setOverlay("palette")} />}
      {phase !== "login" && overlay === "palette" && <Palette onClose={close} />}
      {overlay === "keys" && <Keys onClose={close} />}
      {phase === "login" && <Notices />}
      <Question />
    </DialogStack>
  )
}

// ---

type Overlay = "palette" | "keys"

function Frame({ onJump }: { onJump(): void }) {
  const route = useRoute()
  const phase = useStateOf((state) => state.phase)
  const isRead = useStateOf((state) => state.status !== undefined && state.phase !== "loading")
  const [id = "servers"] = route.path
  const view = VIEWS.find((one) => one.id === id) ?? VIEWS[0]
  const main = useRef<HTMLElement>(null)
  const place = route.path.join("/")
  const before = useRef(place)
  // A layout effect moves the focus before the view is painted, so no key press reaches another element.
  useLayoutEffect(() => {
    // The name of a tool for clients stands here until the view of the tool knows its own name.
    const [, name] = route.path
    const isPart = name !== undefined && (id === "tools" || (id === "servers" && name !== "add"))
    document.title = `${isPart ? name : (view?.title ?? "svc")} · svc`
    // The focus makes a screen reader announce a new view; it announces the first view anyway.
    if (before.current !== place) main.current?.querySelector("h1")?.focus()
    before.current = place
  }, [place, view])
  useKeptFocus(main)
  return (
    <div class="frame">
      <Navigation current={view} onJump={onJump} />
      <main id="main" ref={main} tabIndex={-1}>
        <DemoNote />
        <Trouble view={id} />
        {isRead
          ? view !== undefined && <view.Draw key={view.id} route={route} />
          : phase === "loading" && <p class="empty">Loading …</p>}
      </main>
    </div>
  )
}

function DemoNote() {
  const isDemo = useStateOf((state) => state.status?.isDemo === true)
  if (!isDemo) return null
  return (
    <div class="note">
      <p>
        This is the demo. Look around and try everything: what you change is gone when the demo stops. For your own
        servers, run <code>svc serve</code>.
      </p>
    </div>
  )
}

/** Shows the problems that concern every view: svc does not answer, or the whole configuration is broken. */
function Trouble({ view }: { view: string }) {
  const phase = useStateOf((state) => state.phase)
  const trouble = useStateOf((state) => state.trouble)
  const issues = useStateOf((state) => state.issues)
  const broken = issues.find(({ severity, server }) => severity === "error" && server === undefined)
  if (phase === "lost") return <Failure text={`${trouble}\nThe page retries by itself.`} />
  if (broken === undefined || view === "issues") return null
  return (
    <div class="note bad" role="alert">
      <p>
        {broken.message} <a href={linkTo(["issues"])}>Configuration issues</a>
      </p>
    </div>
  )
}

function Navigation({ current, onJump }: { current: View | undefined; onJump(): void }) {
  const [isOpen, setOpen] = useState(false)
  const status = useStateOf((state) => state.status)
  const phase = useStateOf((state) => state.phase)
  const route = useRoute()
  useEffect(() => setOpen(false), [route])
  return (
    <header class={`side ${isOpen ? "open" : ""}`}>
      <div class="brand">
        <a href={linkTo(["servers"])}>
          <strong>svc</strong> <span class="version">{status?.version}</span>
        </a>
        <span class={`state ${phase === "ready" ? "good" : "notice"} live`}>
          <span class="dot" aria-hidden="true" />
          {phase === "ready" ? "live" : "waiting"}
        </span>
        <button
          type="button"
          class="button quiet menu"
          aria-expanded={isOpen}
          aria-controls="nav"
          onClick={() => setOpen(!isOpen)}
        >
          Menu
        </button>
      </div>
      <nav id="nav" aria-label="Views">
        <ul>
          {VIEWS.map(({ id, title, Count }) => (
            <li key={id}>
              <a href={linkTo([id])} aria-current={current?.id === id ? "page" : undefined}>
                {title} {Count !== undefined && <Count />}
              </a>
            </li>
          ))}
        </ul>
        <Button kind="quiet" onClick={onJump}>
          Go to … <kbd>Ctrl K</kbd>
        </Button>
        <ThemeSwitch />
        <LogOut />
      </nav>
      <Notices />
    </header>
  )
}

function LogOut() {
  const { api, live } = useApp()
  const [busy, run] = useAction()
  return (
    <Button
      kind="quiet"
      isBusy={busy !== undefined}
      onClick={() =>
        void run("logout", async () => {
          await api.logOut()
          live.follow()
          return "Logged out"
        })
      }
    >
      Log out
    </Button>
  )
}

function ThemeSwitch() {
  const [theme, setTheme] = useState(() => localStorage.getItem("svc-theme") ?? "system")
  useEffect(() => {
    localStorage.setItem("svc-theme", theme)
    document.documentElement.dataset.theme = theme
  }, [theme])
  return (
    <fieldset class="theme">
      <legend class="hidden">Colors</legend>
      {["system", "light", "dark"].map((name) => (
        <label key={name}>
          <input type="radio" name="theme" checked={theme === name} onChange={() => setTheme(name)} />
          <span>{name}</span>
        </label>
      ))}
    </fieldset>
  )
}

function Question() {
  const { ui } = useApp()
  const question = useSelected(ui.store, (state) => state.question)
  if (question === undefined) return null
  return (
    <Dialog title={question.title} onClose={() => question.answer(false)}>
      <p>{question.text}</p>
      <div class="actions">
        <Button onClick={() => question.answer(false)}>Cancel</Button>
        <Button kind={question.isDangerous === true ? "danger" : "primary"} onClick={() => question.answer(true)}>
          {question.action}
        </Button>
      </div>
    </Dialog>
  )
}

/** Moves the focus to the title of the view if the element that had it is gone, such as the button of a change that is done. */
function useKeptFocus(main: { readonly current: HTMLElement | null }) {
  useEffect(() => {
    const element = main.current
    if (element === null) return
    let last: EventTarget | null = null
    const onfocus = ({ target }: FocusEvent) => {
      last = target
    }
    const observer = new MutationObserver(() => {
      if (document.activeElement !== document.body || !(last instanceof HTMLElement) || last.isConnected) return
      element.querySelector("h1")?.focus({ preventScroll: true })
    })
    element.addEventListener("focusin", onfocus)
    observer.observe(element, { childList: true, subtree: true })
    return () => {
      element.removeEventListener("focusin", onfocus)
      observer.disconnect()
    }
  }, [])
}

/** Obeys the keys of the whole page (Keys lists them). */
function useShortcuts(open: (overlay: Overlay) => void) {
  useEffect(() => {
    const onkey = (event: KeyboardEvent) => {
      const { target, key } = event
      if (key === "Enter" && (event.ctrlKey || event.metaKey) && target instanceof HTMLElement)
        target.closest("form")?.querySelector<HTMLButtonElement>("button[type=submit]")?.click()
      if (document.querySelector("dialog[open]") !== null) return
      if (key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
        event.preventDefault()
        open("palette")
        return
      }
      const isTyping = target instanceof HTMLElement && target.closest("input, textarea, select") !== null
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return
      if (key === "?") open("keys")
      if (key !== "/") return
      const field = document.querySelector<HTMLInputElement>("[data-search]")
      if (field === null) return
      event.preventDefault()
      field.focus()
      field.select()
    }
    addEventListener("keydown", onkey)
    return () => removeEventListener("keydown", onkey)
  }, [])
}
