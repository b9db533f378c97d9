/** `true` sets an attribute without a value; `false` and `undefined` leave it out. A function listens to an event. */
type Attribute = string | number | boolean | undefined | ((event: Event) => void);
type Attributes = Readonly<Record<string, Attribute>>;
type Child = Node | string | false | undefined;

/**
 * Creates an element with attributes and children. The name of an event is the name of its attribute, such as `click`.
 * Strings become text, so they are never read as HTML.
 */
export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Tag] {
  return fill(document.createElement(tag), attributes, children);
}

export const svgElement = (tag: string, attributes: Attributes, ...children: readonly Child[]): SVGElement =>
  fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

function fill<Target extends Element>(
  target: Target,
  attributes: Attributes,
  children: readonly Child[],
): Target {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') target.addEventListener(name, value);
    else if (value !== undefined && value !== false)
      target.setAttribute(name, value === true ? '' : `${value}`);
  }
  target.append(...children.filter((child) => child !== undefined && child !== false));
  return target;
}

/** Finds an element of index.html. */
export function byId<Target extends HTMLElement = HTMLElement>(id: string): Target {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`index.html has no element with the id ${id}`);
  return found as Target;
}

/**
 * Makes `children` the children of `parent`. Children that stay in order are not moved, so that they keep the focus. If the
 * child with the focus is removed, the last button gets the focus, so that a user of the keyboard stays in the list.
 */
export function setChildren(parent: Element, children: readonly Element[]): void {
  const wanted = new Set(children);
  const hadFocus = parent.contains(document.activeElement);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  for (const [i, child] of children.entries()) {
    const present = parent.children[i];
    if (present !== child) parent.insertBefore(child, present ?? null);
  }
  if (hadFocus && !parent.contains(document.activeElement)) {
    [...parent.querySelectorAll('button')].at(-1)?.focus({ preventScroll: true });
  }
}

/** A table whose rows have their roles even if the style sheet shows them as lists on narrow screens. */
export function table(caption: string, columns: readonly string[], body: HTMLElement): HTMLTableElement {
  body.setAttribute('role', 'rowgroup');
  return element(
    'table',
    { role: 'table' },
    element('caption', { class: 'hidden-text' }, caption),
    element(
      'thead',
      { role: 'rowgroup' },
      element(
        'tr',
        { role: 'row' },
        ...columns.map((name) =>
          element('th', { role: 'columnheader', scope: 'col', class: columnClass(name) }, name),
        ),
      ),
    ),
    body,
  );
}

/** A table in a box that scrolls on narrow screens, also with the keyboard. */
export const scrollable = (...[caption, columns, body]: Parameters<typeof table>): HTMLElement =>
  element(
    'div',
    { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption },
    table(caption, columns, body),
  );

/** A row of a table: the names of its columns, each with the content of the cell. */
export const tableRow = (
  cells: readonly (readonly [column: string, content: Child])[],
): HTMLTableRowElement =>
  element(
    'tr',
    { role: 'row' },
    ...cells.map(([name, content]) => element('td', { role: 'cell', class: columnClass(name) }, content)),
  );

const columnClass = (name: string): string => `column-${name.toLowerCase().replaceAll(' ', '-')}`;
