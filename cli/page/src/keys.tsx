import type { ComponentChildren } from "preact";
import { createContext } from "preact";
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import { Modal } from "./modal.js";

export interface Key {
  /** The names of the keys, as in `KeyboardEvent.key`. */
  readonly keys: readonly string[];
  readonly what: string;
  readonly run: () => void;
}

interface KeyGroup {
  readonly title: string;
  readonly keys: readonly Key[];
}

/** The keys of the components that are shown now. The group registered last has priority. */
class KeyGroups {
  readonly groups = new Set<{ readonly current: KeyGroup }>();

  find(name: string): Key | undefined {
    for (const { current } of [...this.groups].reverse()) {
      const key = current.keys.find(({ keys }) => keys.includes(name));
      if (key !== undefined) return key;
    }
    return undefined;
  }
}

const KeyContext = createContext(new KeyGroups());

/** Registers keys while the component is shown. */
export function useKeys(title: string, keys: readonly Key[]): void {
  const registry = useContext(KeyContext);
  const group = useRef<KeyGroup>({ title, keys });
  group.current = { title, keys };
  useEffect(() => {
    registry.groups.add(group);
    return () => void registry.groups.delete(group);
  }, [registry]);
}

const OFF = "waymark.single-keys";

/** Listens for keys, and lists them when `?` is pressed. */
export function Keys({ children }: { readonly children: ComponentChildren }) {
  const [registry] = useState(() => new KeyGroups());
  const [isListed, setIsListed] = useState(false);
  // Voice control types single letters, so they can be switched off.
  const [isOn, setIsOn] = useState(() => localStorage.getItem(OFF) !== "off");

  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      if (document.querySelector("dialog[open], :popover-open") !== null) return;
      if (event.key === "?" && !isTyping(event)) {
        event.preventDefault();
        setIsListed(true);
        return;
      }
      if (isTyping(event) && event.key !== "Escape") return;
      if (!isOn && event.key.length === 1) return;
      // On a button or link, these keys press it.
      if ((event.key === "Enter" || event.key === " ") && isPressable(event)) return;
      const key = registry.find(event.key);
      if (key === undefined) return;
      event.preventDefault();
      key.run();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [registry, isOn]);

  useEffect(() => {
    const open = () => setIsListed(true);
    addEventListener("waymark-keys", open);
    return () => removeEventListener("waymark-keys", open);
  }, []);

  const turn = (on: boolean) => {
    setIsOn(on);
    localStorage.setItem(OFF, on ? "on" : "off");
  };

  return (
    <KeyContext.Provider value={registry}>
      {children}
      {isListed && (
        <Modal title="Keys" onClose={() => setIsListed(false)}>
          {[...registry.groups].map(({ current: { title, keys } }) => (
            <section key={title}>
              <h3>{title}</h3>
              <dl class="keys">
                {keys.map((key) => (
                  <div key={key.what} class="key">
                    <dt>
                      {key.keys.map((name) => (
                        <kbd key={name}>{NAMES[name] ?? name}</kbd>
                      ))}
                    </dt>
                    <dd>{key.what}</dd>
                  </div>
                ))}
              </dl>
            </section>
          ))}
          <label class="check">
            <input type="checkbox" checked={isOn} onChange={(event) => turn(event.currentTarget.checked)} />
            Single letters are keys
          </label>
        </Modal>
      )}
    </KeyContext.Provider>
  );
}

/** Opens the list of keys, for the button in the frame. */
export function listKeys(): void {
  dispatchEvent(new Event("waymark-keys"));
}

const NAMES: Readonly<Record<string, string>> = {
  ArrowDown: "↓",
  ArrowUp: "↑",
  ArrowLeft: "←",
  ArrowRight: "→",
  Escape: "Esc",
  PageDown: "Page ↓",
  PageUp: "Page ↑",
};

function isTyping({ target }: KeyboardEvent): boolean {
  if (target instanceof HTMLInputElement) return target.type !== "checkbox";
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
}

function isPressable({ target }: KeyboardEvent): boolean {
  return target instanceof HTMLButtonElement || target instanceof HTMLAnchorElement;
}
