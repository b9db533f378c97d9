// Says at the start of a run that dist/ is older than src/. The tests of the built command would test an old program.
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

export default () => {
  const root = join(import.meta.dirname, '..');
  const timeOf = (path: string) => statSync(join(root, path), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' });
  const newest = Math.max(...sources.map((path) => timeOf(join('src', path))));
  if (newest > timeOf('dist/pets.js'))
    console.log('dist/ is older than src/: if a test runs the built command, run npm run build first');
};
