import { svgElement } from './element.ts';

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
