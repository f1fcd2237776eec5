// Plays one episode with openapi-fetch and the types that openapi-typescript makes from /openapi.json.
//
//     node dist/play.js URL ENVIRONMENT [KEY]
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

type Schemas = components["schemas"];
declare const process: { argv: string[] };

const [url, environment, key] = process.argv.slice(2);
if (!url || !environment) throw new Error("usage: play URL ENVIRONMENT [KEY]");
const client = createClient<paths>({ baseUrl: url, headers: key ? { "X-API-Key": key } : {} });

/** Return the answer, or throw what the server says about the refusal. */
function must<T>(answer: { data?: T; error?: unknown }): T {
  if (answer.data === undefined) throw new Error(JSON.stringify(answer.error));
  return answer.data;
}

/** Return the result that a whole stream contains. */
function resultOf(stream: string): Schemas["RunToolOutput"] {
  let json = "";
  for (const block of stream.split("\n\n")) {
    const lines = block.split("\n");
    const event = lines.find((line) => line.startsWith("event: "))?.slice(7) as Schemas["CallEvent"]["event"] | undefined;
    const data = lines.filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
    if (event === "error") throw new Error(data);
    if (event === "chunk" || event === "end") json += data;
  }
  return JSON.parse(json);
}

const { sid } = must(await client.POST("/create_session")) as Schemas["SessionName"]; // JSON, unless a stream is asked for
const header = { "X-Session-ID": sid };
const path = { env_name: environment };

async function call(name: string, input: Record<string, unknown>): Promise<Schemas["RunToolOutput"]> {
  const request = { params: { header, path }, body: { name, input }, parseAs: "text" as const };
  return resultOf(must(await client.POST("/{env_name}/call", request)));
}

const splits = must(await client.GET("/{env_name}/splits", { params: { path } }));
const count = must(await client.POST("/{env_name}/num_tasks", { params: { path }, body: { split: splits[0]!.name } }));
const body = { env_name: environment, split: splits[0]!.name, index: count.num_tasks - 1 };
must(await client.POST("/create", { params: { header: { ...header, "X-Run": "typescript" } }, body }));
const prompt = must(await client.GET("/{env_name}/prompt", { params: { header, path } }));
const { tools } = must(await client.GET("/{env_name}/task_tools", { params: { header, path } }));
const refused = await call("echo", { text: 1 });
const said = await call("echo", { text: "ä ".repeat(5000) });
const finished = await call("finish", {});
must(await client.POST("/delete", { params: { header } }));

const rewards = [said, finished].map((one) => (one.ok ? one.output.reward : null));
console.log(
  JSON.stringify({
    sid,
    prompt: prompt.map((block) => (block.type === "text" ? block.text : block.mimeType)),
    tools: tools.map((tool) => tool.name),
    refusal: refused.ok ? null : refused.reason,
    length: said.ok ? said.output.blocks.reduce((sum, one) => sum + (one.type === "text" ? one.text.length : 0), 0) : 0,
    rewards,
    finished: finished.ok && finished.output.finished,
  }),
);
