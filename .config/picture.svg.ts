// Draws what a terminal shows as an SVG that looks the same in any monospaced font.
import type { IBufferCell, Terminal } from '@xterm/headless';

const CELL = { width: 8.4, height: 19 };
const FONT_SIZE = 14;
const PADDING = 20;
const BAR = 38;

/** The colors by their number in a terminal. The output in the picture uses no other colors. */
const colors: Record<number, string> = {
  1: '#ff7b72',
  2: '#56d364',
  3: '#e3b341',
  4: '#79c0ff',
  5: '#d2a8ff',
  6: '#56d4dd',
  8: '#8b949e',
};

/** Adjacent cells with the same style. `look` is a list of CSS classes. */
type Run = { column: number; cells: number; text: string; look: string };

export function drawTerminal(
  terminal: Terminal,
  { title, description }: { title: string; description: string },
): string {
  const rows = rowsOf(terminal);
  const width = Math.round(terminal.cols * CELL.width + 2 * PADDING);
  const height = BAR + rows.length * CELL.height + PADDING;
  const palette = Object.entries(colors).map(([n, color]) => `.c${n}{fill:${color}}`);
  const dots = ['#ff5f57', '#febc2e', '#28c840'].map(
    (color, i) => `<circle cx="${PADDING + 4 + i * 20}" cy="20" r="6" fill="${color}"/>`,
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-labelledby="title description">
<title id="title">${escaped(title)}</title>
<desc id="description">${escaped(description)}</desc>
<style>text{font:${FONT_SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#e6edf3;white-space:pre}.b{font-weight:bold}.d{opacity:.65}${palette.join('')}</style>
<rect width="${width}" height="${height}" rx="10" fill="#0d1117"/>
${dots.join('')}
${rows.flatMap((runs, y) => runs.map((run) => drawRun(run, y))).join('\n')}
</svg>
`;
}

/** Draws a run at a fixed position with a fixed length, so that columns are aligned in any font. */
function drawRun({ column, cells, text, look }: Run, row: number): string {
  const x = (PADDING + column * CELL.width).toFixed(1);
  const y = BAR + row * CELL.height + FONT_SIZE;
  const length = (cells * CELL.width).toFixed(1);
  const style = look === '' ? '' : ` class="${look}"`;
  return `<text x="${x}" y="${y}" textLength="${length}" lengthAdjust="spacingAndGlyphs" xml:space="preserve"${style}>${escaped(text)}</text>`;
}

function rowsOf({ buffer: { active } }: Terminal): Run[][] {
  const rows: Run[][] = [];
  for (let y = 0; y < active.length; y++) {
    const line = active.getLine(y);
    const runs: Run[] = [];
    for (let column = 0; line !== undefined && column < line.length; column++) {
      const cell = line.getCell(column);
      // The second half of a wide character is a cell without width.
      if (cell === undefined || cell.getWidth() === 0) continue;
      const last = runs.at(-1);
      const [look, text, cells] = [lookOf(cell), cell.getChars() || ' ', cell.getWidth()];
      if (last?.look === look) Object.assign(last, { text: last.text + text, cells: last.cells + cells });
      else runs.push({ column, cells, text, look });
    }
    rows.push(runs.map(tidied).filter(({ text }) => text !== ''));
  }
  while (rows.at(-1)?.length === 0) rows.pop();
  return rows;
}

/** Removes trailing spaces, and replaces the random port with the default port. */
function tidied(run: Run): Run {
  const text = run.text.trimEnd().replace(/127\.0\.0\.1:\d+/, '127.0.0.1:7387');
  return { ...run, text, cells: run.cells - (run.text.length - text.length) };
}

function lookOf(cell: IBufferCell): string {
  const color = cell.isFgPalette() ? `c${cell.getFgColor()}` : '';
  return [color, cell.isBold() ? 'b' : '', cell.isDim() ? 'd' : ''].filter(Boolean).join(' ');
}

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
