/** How `tasks/list` joins the lists of several replicas. */
import { expect, test } from "bun:test"
import { listTasksOfAll } from "../../../src/features/cluster/task-lists.ts"
import { sectionOf } from "../../../src/session/tasks.ts"

const REQUEST = { jsonrpc: "2.0", id: 1, method: "tasks/list" } as const

test("if a replica ends while it answers, only its own tasks are missing [cluster:tasks:list]", async () => {
  const broken = new ReadableStream({ start: (controller) => controller.error(new Error("the connection was closed")) })
  const listing = (tasks: readonly object[]) => Response.json({ jsonrpc: "2.0", id: 1, result: { tasks } })
  const answers: Readonly<Record<string, Response | undefined>> = {
    "": listing([{ taskId: "outlived" }]),
    r1: new Response(broken),
    r2: undefined,
    r3: listing([{ taskId: "t3" }]),
  }
  const asked: string[] = []
  const response = await listTasksOfAll(REQUEST, {
    replicas: ["r3", "r1", "r2"],
    async ask(section, { params }) {
      asked.push(sectionOf(params?.cursor))
      return answers[section]
    },
  })
  expect(await response.json()).toEqual({
    jsonrpc: "2.0",
    id: 1,
    result: { tasks: [{ taskId: "outlived" }, { taskId: "t3" }] },
  })
  expect(asked).toEqual(["", "r1", "r2", "r3"])
})

test("all replicas are asked at once, and one that does not answer keeps the others waiting no longer than it is known [cluster:tasks:list] [cluster:silent]", async () => {
  const silent = Promise.withResolvers<Response | undefined>()
  const asked: string[] = []
  const response = listTasksOfAll(REQUEST, {
    replicas: ["r1", "r2", "r3"],
    ask(section) {
      asked.push(section)
      if (section === "r1") return silent.promise
      return Promise.resolve(Response.json({ jsonrpc: "2.0", id: 1, result: { tasks: [{ taskId: section }] } }))
    },
  })
  expect(asked).toEqual(["", "r1", "r2", "r3"])
  silent.reject(new Error("does not answer"))
  expect(await (await response).json()).toMatchObject({
    result: { tasks: [{ taskId: "" }, { taskId: "r2" }, { taskId: "r3" }] },
  })
})

test("an error that every replica returns reaches the client once", async () => {
  const refused = { jsonrpc: "2.0", id: 1, error: { code: -32_602, message: "The cursor is not from this list" } }
  const ask = async () => Response.json(refused, { status: 200 })
  const response = await listTasksOfAll(REQUEST, { replicas: ["r1", "r2"], ask })
  expect(await response.json()).toEqual(refused)
})
