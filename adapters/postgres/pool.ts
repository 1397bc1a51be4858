import { isError, StorageError } from "../../src/contract/errors.js";
import { loadPackage } from "../../src/contract/load-package.js";
import type { PostgresPool } from "./connection.js";

interface Pg {
  readonly Pool: new (options: object) => PostgresPool;
  readonly Client: new (
    options: object,
  ) => {
    connect(done: (error?: Error) => void): void;
    end(done: () => void): void;
  };
}

/** @throws {StorageError} pg can't be loaded. */
function loadPg(): Pg {
  try {
    // The cast is needed, since only pg's own declarations could prove this type.
    return loadPackage("pg") as Pg;
  } catch (cause) {
    const [reason = ""] = (isError(cause) ? cause.message : String(cause)).split("\n", 1);
    throw new StorageError(
      `pg can't be loaded: ${reason}. Nothing was read or written. Run \`npm install pg\`. For a bundle, install it where ` +
        "the bundle runs, or pass a `pool`.",
      { cause },
    );
  }
}

export function makePool(url: string): PostgresPool {
  const pg = loadPg();
  class Client extends pg.Client {
    /**
     * Closes the connection if the login fails. If no password is given, pg leaves it open, and the program would run
     * until the server closes it.
     */
    override connect(done: (error?: Error) => void): void {
      super.connect((error) => {
        if (error) this.end(() => undefined);
        done(error);
      });
    }
  }
  return new pg.Pool({
    Client,
    connectionString: url,
    fallback_application_name: "waymark",
    connectionTimeoutMillis: 10_000,
    // Without this limit, the system would report a vanished host only after a quarter of an hour.
    query_timeout: 120_000,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    // With this, a program that doesn't close its storage can still end.
    allowExitOnIdle: true,
  });
}
