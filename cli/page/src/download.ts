import type { Api } from "./api.js";

/** Downloads a task as one file. */
export async function download(api: Api, taskId: string): Promise<void> {
  const { fileName, text } = await api.ask("export", { taskId });
  const url = URL.createObjectURL(new Blob([text], { type: "application/x-ndjson" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = fileName;
  link.click();
  URL.revokeObjectURL(url);
}
