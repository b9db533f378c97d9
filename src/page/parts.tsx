import type { ComponentChildren, JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { escapeInvisible } from './text.ts';

/** Runs actions of a part of the page, one at a time, and keeps the message of the last error. */
export function useAttempt() {
  const [problem, setProblem] = useState('');
  // Buttons are not disabled meanwhile, because a disabled button loses the keyboard focus.
  const isBusy = useRef(false);

  async function attempt(action: () => Promise<void>): Promise<void> {
    if (isBusy.current) return;
    isBusy.current = true;
    try {
      await action();
      setProblem('');
    } catch (error) {
      setProblem((error as Error).message);
    }
    isBusy.current = false;
  }
  return { problem, attempt };
}

/** Shows a text from the server. Options in it, such as `--quiet`, are not broken at their hyphens. */
export const ServerText = ({ text }: { text: string }) =>
  escapeInvisible(text)
    .split(/(--[a-z][a-z-]*)/)
    .map((part, i) => (i % 2 === 1 ? <code key={part}>{part}</code> : part));

export const Problem = ({ text }: { text: string }) =>
  text === '' ? null : (
    <p class="problem" role="alert">
      <ServerText text={text} />
    </p>
  );

type FieldProps = { label: string; isWide?: boolean; children: JSX.Element };

export const Field = ({ label, isWide, children }: FieldProps) => (
  // biome-ignore lint/a11y/noLabelWithoutControl: the control is the child.
  <label class={isWide ? 'field wide' : 'field'}>
    <span>{label}</span>
    {children}
  </label>
);

type TableProps = { caption: string; columns: readonly string[]; children: JSX.Element };

/** A table with explicit ARIA roles, because browsers drop the implicit ones if the style sheet changes `display`. */
export const Table = ({ caption, columns, children }: TableProps) => (
  <table role="table">
    <caption class="hidden-text">{caption}</caption>
    <thead role="rowgroup">
      <tr role="row">
        {columns.map((name) => (
          <th key={name} role="columnheader" scope="col" class={columnClass(name)}>
            {name}
          </th>
        ))}
      </tr>
    </thead>
    {children}
  </table>
);

type RowProps = { cells: Readonly<Record<string, ComponentChildren>>; class?: string };

/** A row of a table: the names of its columns, each with the content of the cell. */
export const Row = ({ cells, ...rest }: RowProps) => (
  <tr role="row" {...rest}>
    {Object.entries(cells).map(([name, content]) => (
      <td key={name} role="cell" class={columnClass(name)}>
        {content}
      </td>
    ))}
  </tr>
);

const columnClass = (name: string): string => `column-${name.toLowerCase()}`;

/** What an action has done. It can be focused, because the button of the action may be gone. */
export const Done = ({ text }: { text: string }) => (
  <p class="done" role="status" tabIndex={-1}>
    {text}
  </p>
);

/** Moves the focus to what the last action in a section has done. */
export const focusDone = (section: string): void =>
  document.querySelector<HTMLElement>(`#${section} .done`)?.focus();

/** A list of names and values, both untrusted text. */
export const Definitions = ({ values }: { values: Readonly<Record<string, string>> }) => (
  <dl>
    {Object.entries(values).map(([name, value]) => (
      <div key={name}>
        <dt>
          <bdi>{escapeInvisible(name)}</bdi>
        </dt>
        <dd>
          <bdi>{escapeInvisible(value)}</bdi>
        </dd>
      </div>
    ))}
  </dl>
);

/** A box of text that can be scrolled with the keyboard. */
export const Code = ({ label, text }: { label: string; text: string }) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: without it, the keyboard cannot scroll the box.
  <pre tabIndex={0} role="region" aria-label={label}>
    {escapeInvisible(text)}
  </pre>
);
