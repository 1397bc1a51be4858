import { nanoid } from "nanoid";

/** A nanoid that no command takes for an option: it doesn't begin with a hyphen. */
export function newCheckpointId(): string {
  let id: string;
  do id = nanoid();
  while (id.startsWith("-"));
  return id;
}
