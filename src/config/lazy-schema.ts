/** Loads the schemas at their first use: that takes 10 ms, and most documents are checked without them (plain-server.ts). */
import { lazy } from "../lib/lazy.ts"
import type * as Schemas from "./schema.ts"

/** Returns the schemas. Synchronous, as a reload is. */
export const schemas = lazy((): typeof Schemas => require("./schema.ts"))
