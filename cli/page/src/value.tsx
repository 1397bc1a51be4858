import { StoredText } from "./stored-text.js";

/** Shows a value below its title. Short values are open at first. */
export function Part({ title, text }: { readonly title: string; readonly text: string }) {
  return (
    <details class="step" open={text.length < 200}>
      <summary>
        <strong>{title}</strong>
      </summary>
      <Value text={text} label={title} />
    </details>
  );
}

export function Value({ text, label }: { readonly text: string; readonly label: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a part that scrolls is reached by the keyboard.
    <section class="value-box" tabIndex={0} aria-label={label}>
      <pre>
        <StoredText text={text} hasLines />
      </pre>
    </section>
  );
}
