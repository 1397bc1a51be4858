import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ErrorInfo, StatePath, Typed } from "../../src/ui/api-parts.js";
import type { SearchAnswer } from "../../src/ui/api-states.js";
import { countText } from "../../src/words.js";
import { errorInfo, isAbort } from "./api.js";
import { useCopy } from "./commands.js";
import { useKeys } from "./keys.js";
import { usePage } from "./page.js";
import { Problem } from "./problem.js";
import { StoredText } from "./stored-text.js";
import { openAtFirst, type TreeRow, treeRows, valueAt } from "./tree-rows.js";
import { countItems, joined, jsonPath, openNode, pathKey, renderLeaf, summaryText, typedText } from "./typed.js";

interface StateTreeProps {
  readonly taskId: string;
  readonly id: string;
  readonly state: Typed;
}

/** Longer texts (in UTF-16 units) are cut in the tree until they are opened. */
const LONG = 400;

/** Shows a state as a tree that can be opened, searched and copied from by keyboard. */
export function StateTree({ taskId, id, state }: StateTreeProps) {
  const { api } = usePage();
  const copy = useCopy();
  const [parts, setParts] = useState<ReadonlyMap<string, Typed>>(new Map());
  const [open, setOpen] = useState<ReadonlySet<string>>(() => openAtFirst(state));
  const [selected, setSelected] = useState("");
  const [text, setText] = useState("");
  const [found, setFound] = useState<SearchAnswer>();
  const [error, setError] = useState<ErrorInfo>();
  const field = useRef<HTMLInputElement>(null);
  const tree = useRef<HTMLDivElement>(null);
  const isFocused = useRef(false);

  const source = { state, parts };
  const rows = useMemo(() => treeRows({ state, parts }, open), [state, parts, open]);
  const names = rows.map(rowKey);
  const index = Math.max(0, names.indexOf(selected));
  const row = rows[index];
  const foundKeys = useMemo(() => new Set(found?.found.map(({ path }) => pathKey(path))), [found]);

  useEffect(() => {
    if (!isFocused.current) return;
    const item = tree.current?.children[index];
    if (item instanceof HTMLElement) item.focus({ preventScroll: true });
    item?.scrollIntoView({ block: "nearest" });
  }, [index, rows]);

  useEffect(() => {
    if (text === "") {
      setFound(undefined);
      return;
    }
    const stopped = new AbortController();
    const timer = setTimeout(async () => {
      try {
        setFound(await api.ask("search", { taskId, id, text }, stopped.signal));
        setError(undefined);
      } catch (failure) {
        if (!isAbort(failure)) setError(errorInfo(failure));
      }
    }, 150);
    return () => {
      clearTimeout(timer);
      stopped.abort();
    };
  }, [api, taskId, id, text]);

  /** Fetches a part, and returns all parts fetched so far. */
  const fetchPart = async (known: ReadonlyMap<string, Typed>, path: StatePath, from?: number) => {
    const { value } = await api.ask("state", { taskId, id, path, ...(from === undefined ? {} : { from }) });
    const before = from === undefined ? undefined : valueAt({ state, parts: known }, path);
    return new Map(known).set(pathKey(path), before === undefined ? value : joined(before, value));
  };

  const attempt = async (work: () => Promise<void>) => {
    try {
      await work();
      setError(undefined);
    } catch (failure) {
      setError(errorInfo(failure));
    }
  };

  const openRow = (one: TreeRow) =>
    attempt(async () => {
      const name = pathKey(one.path);
      if (one.more !== undefined) {
        const shown = openNode(valueAt(source, one.path) ?? null)?.children.length ?? 0;
        setParts(await fetchPart(parts, one.path, shown));
        setSelected(pathKey([...one.path, shown]));
        return;
      }
      if (one.hasChildren && openNode(one.value) === undefined) setParts(await fetchPart(parts, one.path));
      else if (renderLeaf(one.value).left > 0) setParts(await fetchPart(parts, one.path));
      setOpen((before) => new Set(before).add(name));
    });

  const closeRow = (one: TreeRow) => {
    setOpen((before) => {
      const after = new Set(before);
      after.delete(pathKey(one.path));
      return after;
    });
  };

  /** Opens all nodes above a place, and fetches those that are missing. */
  const reveal = (path: StatePath) =>
    attempt(async () => {
      let known = parts;
      const opened = new Set(open);
      for (let depth = 0; depth < path.length; depth += 1) {
        const above = path.slice(0, depth);
        const wanted = path[depth] ?? 0;
        if (openNode(valueAt({ state, parts: known }, above) ?? null) === undefined)
          known = await fetchPart(known, above);
        while (true) {
          const node = openNode(valueAt({ state, parts: known }, above) ?? null);
          if (node === undefined || wanted < node.children.length || node.more === 0) break;
          known = await fetchPart(known, above, node.children.length);
        }
        opened.add(pathKey(above));
      }
      setParts(known);
      setOpen(opened);
      isFocused.current = true;
      setSelected(pathKey(path));
    });

  const move = (to: number) => {
    const name = names[Math.max(0, Math.min(rows.length - 1, to))];
    if (name !== undefined) setSelected(name);
  };
  const path = row === undefined ? "$" : jsonPath(row.path, (at) => valueAt(source, at));
  const copyPath = () => copy(path);
  const copyValue = () => row && copy(valueText(row.value));

  useKeys("State", [
    { keys: ["/"], what: "search the state", run: () => field.current?.focus() },
    { keys: ["c"], what: "copy the path of the chosen part", run: copyPath },
    { keys: ["v"], what: "copy its value", run: copyValue },
    { keys: ["t"], what: "go to the tree: arrows move, open and close", run: () => focusTree() },
  ]);

  const focusTree = () => {
    isFocused.current = true;
    const item = tree.current?.children[index];
    if (item instanceof HTMLElement) item.focus();
  };

  const onKeyDown = (event: KeyboardEvent) => {
    if (row === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    const steps: Partial<Record<string, () => void>> = {
      ArrowDown: () => move(index + 1),
      ArrowUp: () => move(index - 1),
      j: () => move(index + 1),
      k: () => move(index - 1),
      Home: () => move(0),
      End: () => move(rows.length - 1),
      ArrowRight: () => (row.isOpen ? move(index + 1) : isOpenable(row) ? void openRow(row) : undefined),
      ArrowLeft: () =>
        row.isOpen ? closeRow(row) : setSelected(pathKey(row.path.slice(0, row.more ? undefined : -1))),
      Enter: () => (row.isOpen ? closeRow(row) : void openRow(row)),
      " ": () => (row.isOpen ? closeRow(row) : void openRow(row)),
    };
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    step();
  };

  return (
    <section class="card">
      <header>
        <h2>State</h2>
        <search class="tree-tools end">
          <input
            ref={field}
            type="search"
            placeholder="Search keys and values"
            aria-label="Search the state"
            autocomplete="off"
            spellcheck={false}
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === "Escape") {
                event.preventDefault();
                setText("");
                focusTree();
              }
              const first = found?.found[0];
              if (event.key === "Enter" && first) {
                event.preventDefault();
                void reveal(first.path);
              }
            }}
          />
        </search>
      </header>
      {error && (
        <div class="body">
          <Problem title="That part can't be read" error={error} />
        </div>
      )}
      {found && <Found found={found} onReveal={(to) => void reveal(to)} />}
      <div
        ref={tree}
        class="tree"
        role="tree"
        aria-label="State"
        onKeyDown={onKeyDown}
        onFocusIn={() => {
          isFocused.current = true;
        }}
        onFocusOut={() => {
          isFocused.current = false;
        }}
      >
        {rows.map((one, position) => (
          <Item
            key={rowKey(one)}
            row={one}
            isSelected={position === index}
            isFound={foundKeys.has(pathKey(one.path)) && one.more === undefined}
            isText={open.has(pathKey(one.path))}
            onPress={() => {
              isFocused.current = true;
              setSelected(rowKey(one));
              if (one.isOpen || (!one.hasChildren && open.has(rowKey(one)))) closeRow(one);
              else if (isOpenable(one)) void openRow(one);
            }}
          />
        ))}
      </div>
      <div class="path-line">
        <code>
          <StoredText text={path} />
        </code>
        <button type="button" onClick={copyPath}>
          Copy path <kbd>c</kbd>
        </button>
        <button type="button" onClick={copyValue}>
          Copy value <kbd>v</kbd>
        </button>
      </div>
    </section>
  );
}

interface ItemProps {
  readonly row: TreeRow;
  readonly isSelected: boolean;
  readonly isFound: boolean;
  /** True if a long text was opened. */
  readonly isText: boolean;
  readonly onPress: () => void;
}

function Item({ row, isSelected, isFound, isText, onPress }: ItemProps) {
  const { key, depth, hasChildren, isOpen, position, siblings, more } = row;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the tree handles the keys of its items.
    <div
      role="treeitem"
      class={isFound ? "found" : ""}
      tabIndex={isSelected ? 0 : -1}
      aria-level={depth + 1}
      aria-posinset={position}
      aria-setsize={siblings}
      aria-selected={isSelected}
      aria-expanded={hasChildren ? isOpen : undefined}
      onClick={() => {
        if (getSelection()?.isCollapsed !== false) onPress();
      }}
    >
      <div class="node" style={{ "--depth": String(depth) }}>
        <span class="twist" aria-hidden="true">
          {hasChildren ? "▸" : ""}
        </span>
        {more === undefined ? (
          <>
            <span class="key">
              <StoredText text={key === undefined ? "$" : typeof key === "string" ? key : typedText(key)} />
              {key === undefined || typeof key === "string" || typeof key === "number" ? ":" : " ⇒"}
            </span>
            <Value row={row} isWhole={isText} />
          </>
        ) : (
          <span class="value-word">… {countText(more)} more: press to see them</span>
        )}
      </div>
    </div>
  );
}

function Value({ row: { value }, isWhole }: { readonly row: TreeRow; readonly isWhole: boolean }) {
  if (countItems(value) !== undefined) {
    return (
      <span class="value soft">
        <StoredText text={summaryText(value)} />
      </span>
    );
  }
  const { text, look, kind, left } = renderLeaf(value);
  const isCut = !isWhole && (text.length > LONG || left > 0);
  const shown = isCut ? text.slice(0, LONG) : text;
  const hidden = text.length - shown.length + left;
  return (
    <span class={`value value-${look}`}>
      {look === "text" && '"'}
      <StoredText text={shown} hasLines={isWhole} />
      {look === "text" && hidden === 0 && '"'}
      {kind !== undefined && <span class="kind">{kind}</span>}
      {hidden > 0 && <span class="kind">… {countText(hidden)} more: press to see all</span>}
    </span>
  );
}

function Found({
  found: { found, isCut, besides },
  onReveal,
}: {
  readonly found: SearchAnswer;
  readonly onReveal: (path: StatePath) => void;
}) {
  return (
    <div class="body found-list" role="status">
      <p class="small soft">
        {found.length === 0
          ? `Nothing found${besides.length > 0 ? " in the state" : ""}.`
          : `${countText(found.length)}${isCut ? " or more" : ""} found. Enter goes to the first.`}
      </p>
      {found.length > 0 && (
        <ol class="found-items">
          {found.map(({ path, text, value }) => (
            <li key={pathKey(path)}>
              <button type="button" class="quiet mono anywhere" onClick={() => onReveal(path)}>
                <StoredText text={text === "" ? "$" : text} />
                <span class="soft">
                  <StoredText text={summaryText(value).slice(0, 120)} />
                </span>
              </button>
            </li>
          ))}
        </ol>
      )}
      {besides.length > 0 && <p class="small soft">Also found outside the state, in the parts below:</p>}
      <ul class="found-items">
        {besides.map(({ text, value }) => (
          <li class="mono anywhere" key={text}>
            <StoredText text={text} />{" "}
            <span class="soft">
              <StoredText text={summaryText(value).slice(0, 120)} />
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}

function isOpenable({ value, hasChildren, more }: TreeRow): boolean {
  if (hasChildren || more !== undefined) return true;
  const { text, left } = renderLeaf(value);
  return left > 0 || text.length > LONG || text.includes("\n");
}

function rowKey({ path, more }: TreeRow): string {
  return more === undefined ? pathKey(path) : `${pathKey(path)}+`;
}

/** Returns a value as text to copy. A text is copied without quotes. */
function valueText(value: Typed): string {
  return typeof value === "string" ? value : typedText(value);
}
