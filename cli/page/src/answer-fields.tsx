import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";
import type { Json } from "../../src/ui/api-actions.js";
import type { WaitInfo } from "../../src/ui/api-runs.js";
import { type AnswerField, type AnswerForm, answerForm, answerOf } from "./answer-form.js";
import { usePage } from "./page.js";
import { StoredText } from "./stored-text.js";

/** How the text of the value is read. */
type Form = "text" | "json" | "none";

interface Answered {
  readonly taskId: string;
  readonly wait: WaitInfo;
  readonly onSent: () => void;
}

/** The fields of an answer to a wait, and the functions that send the answer. */
interface Answer {
  readonly fields: ComponentChildren;
  readonly isReady: boolean;
  readonly send: () => Promise<void>;
  /** The options of the schema's choice, if it has one. Each option sends the answer. */
  readonly choices: readonly { readonly text: string; readonly onConfirm: () => Promise<void> }[] | undefined;
}

export function useAnswer({ taskId, wait, onSent }: Answered): Answer {
  const { api, say, session } = usePage();
  const form = answerForm(wait.schema);
  const [isRaw, setIsRaw] = useState(form === undefined);
  const [texts, setTexts] = useState<ReadonlyMap<string, string>>(new Map());
  const [name, setName] = useState(wait.name);
  const [kind, setKind] = useState<Form>("json");
  const [text, setText] = useState("");
  const [by, setBy] = useState(session.sender);
  const shown = isRaw ? undefined : form;
  const value = shown ? answerOf(shown, shown.choice?.options[0], texts) : valueIn(kind, text);
  const isWrong = isRaw && value === undefined && text !== "";
  const sendValue = async (answer: { readonly value?: Json } | undefined) => {
    // A second click, or a second person, must not answer the next wait with this name.
    const isForWait = wait.key !== undefined && name === wait.name;
    await api.ask("send", { taskId, name, by, ...answer, ...(isForWait && { wait: wait.key }) });
    // The task's page shows whether a wait has received the event.
    say("Sent.");
    onSent();
  };
  return {
    isReady: name !== "" && by !== "" && value !== undefined,
    send: () => sendValue(value),
    choices: shown?.choice?.options.map((option) => ({
      text: option.text,
      onConfirm: () => sendValue(answerOf(shown, option, texts)),
    })),
    fields: (
      <>
        {shown ? (
          <FormFields form={shown} texts={texts} onChange={setTexts} />
        ) : (
          <>
            <label class="field">
              Name of the event
              <input
                type="text"
                maxLength={512}
                autocomplete="off"
                spellcheck={false}
                value={name}
                onInput={(event) => setName(event.currentTarget.value)}
              />
            </label>
            <label class="field">
              The value is
              <select value={kind} onChange={(event) => setKind(readForm(event.currentTarget.value))}>
                <option value="json">JSON</option>
                <option value="text">a text</option>
                <option value="none">left out</option>
              </select>
            </label>
            {kind !== "none" && (
              <label class="field">
                Value
                <textarea
                  spellcheck={false}
                  aria-invalid={isWrong}
                  value={text}
                  onInput={(event) => setText(event.currentTarget.value)}
                />
              </label>
            )}
            <p class="small soft" role="status">
              {isWrong ? "This is not valid JSON." : ""}
            </p>
            {isWrong && (
              <p>
                <button type="button" onClick={() => setKind("text")}>
                  Use it as text
                </button>
              </p>
            )}
          </>
        )}
        {form && (
          <p>
            <button type="button" onClick={() => setIsRaw(!isRaw)}>
              {isRaw ? "Answer with the form" : "Answer with JSON"}
            </button>
          </p>
        )}
        <label class="field">
          Sent by
          <input
            type="text"
            autocomplete="off"
            spellcheck={false}
            value={by}
            onInput={(event) => setBy(event.currentTarget.value)}
          />
        </label>
      </>
    ),
  };
}

interface FormFieldsProps {
  readonly form: AnswerForm;
  readonly texts: ReadonlyMap<string, string>;
  readonly onChange: (texts: ReadonlyMap<string, string>) => void;
}

function FormFields({ form, texts, onChange }: FormFieldsProps) {
  return (
    <>
      {form.fields.map((field) => (
        <FormField
          key={field.name}
          field={field}
          value={texts.get(field.name) ?? ""}
          onChange={(text) => onChange(new Map(texts).set(field.name, text))}
        />
      ))}
    </>
  );
}

interface FormFieldProps {
  readonly field: AnswerField;
  readonly value: string;
  readonly onChange: (text: string) => void;
}

function FormField({ field: { title, kind, options, isRequired }, value, onChange }: FormFieldProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>
        <StoredText text={title === "" ? "Answer" : title} />
        {!isRequired && " (optional)"}
      </label>
      {kind === "option" ? (
        <select id={id} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
          <option value="" />
          {options.map(({ text }) => (
            <option key={text} value={text}>
              {text}
            </option>
          ))}
        </select>
      ) : (
        <input
          id={id}
          type="text"
          inputMode={kind === "number" ? "decimal" : "text"}
          autocomplete="off"
          value={value}
          onInput={(event) => onChange(event.currentTarget.value)}
        />
      )}
    </div>
  );
}

/** Returns the part of a request with the value; `undefined` if the text isn't JSON. */
function valueIn(form: Form, text: string): { readonly value?: Json } | undefined {
  if (form === "none") return {};
  if (form === "text") return { value: text };
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

function readForm(text: string): Form {
  return text === "json" || text === "none" ? text : "text";
}
