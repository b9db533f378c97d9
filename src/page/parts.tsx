import type { ComponentChildren, JSX } from 'preact';
import { escapeInvisible } from './text.ts';

/** Shows a text from the server. Options in it, such as `--quiet`, are not broken at their hyphens. */
export const ServerText = ({ text }: { text: string }) =>
  escapeInvisible(text)
    .split(/(--[a-z][a-z-]*)/)
    .map((part, i) => (i % 2 === 1 ? <code key={part}>{part}</code> : part));

export const Field = ({ label, children }: { label: string; children: JSX.Element }) => (
  // biome-ignore lint/a11y/noLabelWithoutControl: the control is the child.
  <label class="field">
    <span>{label}</span>
    {children}
  </label>
);

type TableProps = { caption: string; columns: readonly string[]; children: JSX.Element[] };

/** A table with explicit ARIA roles, because browsers drop the implicit ones if the style sheet changes `display`. */
export const Table = ({ caption, columns, children }: TableProps) => (
  <table role="table" aria-label={caption}>
    <thead role="rowgroup">
      <tr role="row">
        {columns.map((name) => (
          <th key={name} role="columnheader" scope="col" class={columnClass(name)}>
            {name}
          </th>
        ))}
      </tr>
    </thead>
    <tbody role="rowgroup">{children}</tbody>
  </table>
);

type RowProps = { cells: Readonly<Record<string, ComponentChildren>>; class?: string };

/** A row of a table. `cells` has the content of each cell by the name of its column. */
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
