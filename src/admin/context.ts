/** The services for every view: REST, the state of the page and its updates, notices and questions. */
import { createContext } from "preact"
import { useContext } from "preact/hooks"
import type { Api } from "./api.ts"
import type { Live } from "./live.ts"
import { type Store, useSelected } from "./store.ts"
import type { State } from "./types.ts"
import type { Ui } from "./ui.ts"

export type AppContext = { readonly api: Api; readonly store: Store<State>; readonly live: Live; readonly ui: Ui }

export const Context = createContext<AppContext | undefined>(undefined)

/** Returns the context. Throws an Error if no provider surrounds the view. */
export function useApp(): AppContext {
  const context = useContext(Context)
  if (context === undefined) throw new Error("a view is drawn outside of the context")
  return context
}

/** Returns a part of the state, and renders again when it changes. */
export const useStateOf = <R>(select: (state: State) => R): R => useSelected(useApp().store, select)
