// Bundles the page of the developer tools. Except index.html, the name of each file contains a hash of its content, so
// that browsers can keep the files forever.
import { createHash } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'rolldown';

const SOURCE = join('src', 'page');

/** Writes the page. Returns the paths of the modules in its script. */
export async function buildPage(directory: string): Promise<string[]> {
  await mkdir(directory, { recursive: true });
  const script = await build({
    input: join(SOURCE, 'main.tsx'),
    onLog(_level, { message }) {
      throw new Error(message);
    },
    platform: 'browser',
    transform: { target: 'es2023' },
    output: { format: 'es', minify: true, comments: false },
    write: false,
  });
  const [chunk] = script.output;
  const files: [name: string, content: string][] = [
    ['page.js', chunk.code],
    ['page.css', withoutSpace(await readFile(join(SOURCE, 'page.css'), 'utf8'))],
    ['icon.svg', await readFile(join(SOURCE, 'icon.svg'), 'utf8')],
  ];
  let index = withoutSpace(await readFile(join(SOURCE, 'index.html'), 'utf8'));
  for (const [name, content] of files) {
    const hash = createHash('sha256').update(content).digest('hex').slice(0, 10);
    const hashed = name.replace('.', `-${hash}.`);
    index = index.replaceAll(`"${name}"`, `"page/${hashed}"`);
    await writeFile(join(directory, hashed), content);
  }
  await writeFile(join(directory, 'index.html'), index);
  return chunk.moduleIds;
}

/** Removes indentation and comments. */
const withoutSpace = (text: string): string => text.replace(/\/\*.*?\*\//gs, '').replace(/\s*\n\s*/g, '\n');
