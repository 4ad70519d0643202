import { expect, test } from "bun:test"
import { bypassProxyForLoopback } from "../../src/lib/no-proxy.ts"

const HTTP_PROXY = "http://proxy:8080"
const after = (env: Record<string, string>) => {
  bypassProxyForLoopback(env)
  return env
}

test("with a proxy, loopback hosts join those that NO_PROXY names", () => {
  expect(after({ HTTP_PROXY })).toEqual({ HTTP_PROXY, NO_PROXY: "localhost,127.0.0.1,::1" })
  expect(after({ HTTP_PROXY, NO_PROXY: "a.example, 127.0.0.1" })).toEqual({
    HTTP_PROXY,
    NO_PROXY: "a.example,127.0.0.1,localhost,::1",
  })
  expect(after({ https_proxy: HTTP_PROXY, no_proxy: "*", NO_PROXY: "b" })).toEqual({
    https_proxy: HTTP_PROXY,
    no_proxy: "*,localhost,127.0.0.1,::1",
    NO_PROXY: "b",
  })
})

test("an environment without a proxy is unchanged", () => {
  expect(after({ HTTP_PROXY: "", PATH: "/bin" })).toEqual({ HTTP_PROXY: "", PATH: "/bin" })
})

test("a request to this machine does not go to the proxy", async () => {
  const seen: string[] = []
  const proxy = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: ({ url }) => new Response(`proxied ${seen.push(url)}`),
  })
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("direct") })
  const program = `
    const { bypassProxyForLoopback } = await import(${JSON.stringify(`${import.meta.dir}/../../src/lib/no-proxy.ts`)})
    bypassProxyForLoopback(process.env)
    process.stdout.write(await (await fetch(${JSON.stringify(server.url.href)})).text())`
  try {
    const child = Bun.spawn({
      cmd: [process.execPath, "-e", program],
      env: { HTTP_PROXY: proxy.url.href },
      stderr: "inherit",
    })
    expect(await new Response(child.stdout).text()).toBe("direct")
    expect(seen).toEqual([])
  } finally {
    await Promise.all([proxy.stop(true), server.stop(true)])
  }
})
