import { nanoid } from "nanoid";

/** A nanoid that doesn't begin with a hyphen, so that no command takes it for an option. */
export function newCheckpointId(): string {
  let id: string;
  do id = nanoid();
  while (id.startsWith("-"));
  return id;
}
