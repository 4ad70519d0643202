/** Notices and questions for all views. */
import { createStore, type Store } from "./store.ts"
import { readingMs } from "./words.ts"

type Notice = { readonly id: number; readonly tone: "good" | "notice" | "bad"; readonly text: string }

type Question = {
  readonly title: string
  readonly text: string
  /** The label of the button that confirms. */
  readonly action: string
  readonly isDangerous?: boolean
}

type UiState = {
  readonly notices: readonly Notice[]
  readonly question: (Question & { answer(agreed: boolean): void }) | undefined
}

export type Ui = {
  readonly store: Store<UiState>
  /** Shows a notice. Errors stay until they are closed. */
  say(tone: Notice["tone"], text: string): void
  close(id: number): void
  /** Asks a question. Resolves with true if the person agrees. */
  ask(question: Question): Promise<boolean>
}

/** Creates the notices and questions of the page. */
export function createUi(): Ui {
  const store = createStore<UiState>({ notices: [], question: undefined })
  let last = 0
  const close = (id: number) => store.set({ notices: store.get().notices.filter((one) => one.id !== id) })
  return {
    store,
    close,
    say(tone, text) {
      last += 1
      const id = last
      store.set({ notices: [...store.get().notices.filter((one) => one.text !== text), { id, tone, text }].slice(-4) })
      if (tone !== "bad") setTimeout(() => close(id), readingMs(text))
    },
    ask(question) {
      return new Promise((resolve) => {
        const answer = (agreed: boolean) => {
          store.set({ question: undefined })
          resolve(agreed)
        }
        store.set({ question: { ...question, answer } })
      })
    },
  }
}
