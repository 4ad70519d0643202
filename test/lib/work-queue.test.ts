import { expect, test } from "bun:test"
import { WorkQueue } from "../../src/lib/work-queue.ts"

test("work runs alone and in order, whether it fails or not, and a full queue refuses more", async () => {
  const queue = new WorkQueue(2)
  const first = Promise.withResolvers<string>()
  const order: string[] = []
  const one = queue.run(() => first.promise)
  const two = queue.run(async () => order.push("two"))
  await expect(queue.run(async () => order.push("three"))).rejects.toThrow("busy")
  expect(order).toEqual([])
  first.reject(new Error("failed"))
  await expect(one).rejects.toThrow("failed")
  await two
  await queue.run(async () => order.push("four"))
  expect(order).toEqual(["two", "four"])
})
