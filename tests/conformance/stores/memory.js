import { MemoryAdapter } from "waymark/adapters/memory";

export function open() {
  return new MemoryAdapter();
}
