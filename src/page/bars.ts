import { element, svgElement } from './element.ts';
import { formatNumber, visibleLine } from './format.ts';

/** A bar that is filled to a fraction. It is decoration: the same information must be in a text. */
export const bar = (fraction: number, isHigh = false): SVGElement =>
  svgElement(
    'svg',
    { class: 'bar', viewBox: '0 0 100 8', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    svgElement('rect', { class: 'track', width: 100, height: 8 }),
    svgElement('rect', {
      class: isHigh ? 'refused' : 'used',
      width: (100 * Math.min(1, fraction)).toFixed(2),
      height: 8,
    }),
  );

/** A list of bars with a button for each, which chooses its value. */
export function barList(
  counts: readonly (readonly [value: string, count: number])[],
  choose: (value: string) => void,
): HTMLElement {
  const largest = Math.max(1, ...counts.map(([, count]) => count));
  return element(
    'ul',
    { class: 'bars' },
    ...counts.map(([value, count]) =>
      element(
        'li',
        {},
        element(
          'button',
          { type: 'button', class: 'quiet', click: () => choose(value) },
          element('span', { title: value }, visibleLine(value)),
          bar(count / largest),
          element('span', { class: 'number' }, formatNumber(count)),
        ),
      ),
    ),
  );
}
