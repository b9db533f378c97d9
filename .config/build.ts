// Bundles the command into dist/: the entry, chunks of the program that are loaded when a command needs them, output
// that the entry prints without loading the program, the man page, the developer page, and the licenses.
import { spawnSync } from 'node:child_process';
import { chmod, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type BuildOptions, build, type Plugin } from 'rolldown';
import manifest from '../package.json' with { type: 'json' };
import { buildPage } from './build-page.ts';
import { manPage } from './package/man-page.ts';
import { prerender } from './prerender.ts';

const outdir = 'dist';

// Modules that a library imports although pets never uses them. undici's HTTP/1 client imports its HTTP/2 client and
// the bodies of fetch, and loading these two would take longer than a request. The index of prom-client imports
// collectors and libraries that are larger than the rest of prom-client. pg imports a native driver, sockets for
// Cloudflare, and packages that read URLs and password files, which pets reads before it calls pg.
const unusedImports = [
  {
    importer: /[\\/]undici[\\/]lib[\\/]dispatcher[\\/]client(-h1)?\.js$/,
    source: /\/(client-h2|web\/fetch\/body)\.js$/,
  },
  {
    importer: /[\\/]prom-client[\\/]index\.js$/,
    source: /\/(summary|pushgateway|defaultMetrics|cluster)$/,
  },
  {
    importer: /[\\/]pg[\\/]lib[\\/]/,
    source: /^(\.\/native|pg-native|pg-cloudflare|pg-connection-string|pgpass)$/,
  },
];
const unused: Plugin = {
  name: 'unused',
  resolveId(source, importer = '') {
    const isUnused = unusedImports.some((each) => each.importer.test(importer) && each.source.test(source));
    return isUnused ? `\0unused:${source}` : undefined;
  },
  load: (id) => (id.startsWith('\0unused:') ? 'module.exports = {};' : undefined),
};

// Dependencies of libraries that are replaced as a whole (.config/replaced/), as in tests (.config/replace-modules.ts).
const replacedImports = [
  { importer: /[\\/]atomically[\\/]/, source: 'when-exit', file: 'when-exit.js' },
  { importer: /[\\/]conf[\\/]/, source: 'env-paths', file: 'env-paths.js' },
  { importer: /[\\/]cli-table3[\\/]/, source: 'string-width', file: 'string-width.cjs' },
];
const replaced: Plugin = {
  name: 'replaced',
  resolveId(source, importer = '') {
    const found = replacedImports.find((each) => each.source === source && each.importer.test(importer));
    return found && join(import.meta.dirname, 'replaced', found.file);
  },
};

// From source, a module reads its files of SQL and JSON. In the bundle, the text of the file replaces each call.
const fileTexts: Plugin = {
  name: 'file-texts',
  async transform(code, id) {
    const call = /readFileSync\(new URL\('([^']+\.(?:sql|json))', import\.meta\.url\), 'utf8'\)/g;
    const names = [...code.matchAll(call)].map(([, name = '']) => name);
    if (names.length === 0) return undefined;
    const texts = await Promise.all(names.map((name) => readFile(join(dirname(id), name), 'utf8')));
    return code.replace(call, () => JSON.stringify(texts.shift()));
  },
};

// `pets list` loads three chunks instead of twenty files, which is faster. Each chunk contains everything that its
// modules import statically. The first one enables the compile cache for the others. The second one contains the error
// codes, so that `pets serve` does not load the third.
const groups = [
  { name: 'run', test: /cli\/run\.ts$/ },
  { name: 'main', test: /(cli\/main|contract\/api)\.ts$/ },
  { name: 'client', test: /client\/client\.ts$/ },
  // The first group has the highest priority. Negative priorities, such as `-i`, have no effect.
].map((group, i) => ({ ...group, priority: 3 - i }));

// The entry loads the bundled program, instead of containing it.
const loadProgram: Plugin = {
  name: 'load-program',
  resolveId: (source) => (source.endsWith('/run.ts') ? { id: './program.js', external: true } : undefined),
};

await rm(outdir, { recursive: true, force: true });
const program = await bundle('node20.19', {
  input: { program: 'src/cli/run.ts' },
  plugins: [unused, replaced, fileTexts],
});
// A Node that is too old must be able to read the entry, which says so.
const entry = await bundle('es2015', { input: { pets: 'bin/pets.ts' }, plugins: [loadProgram] });
await writeFile(join(outdir, 'package.json'), '{"type":"commonjs"}\n');
await chmod(join(outdir, 'pets.js'), 0o755);
await writeFile(join(outdir, 'prerendered.json'), JSON.stringify(await prerender()));
await writeFile(
  join(outdir, 'pets.1'),
  manPage(manifest.version, commitDay(), 'README.md and docs/ in the package'),
);
const pageModules = await buildPage(join(outdir, 'page'));
const modules = [...program.output, ...entry.output]
  .flatMap((chunk) => ('moduleIds' in chunk ? chunk.moduleIds : []))
  .concat(pageModules);
await writeFile(join(outdir, 'THIRD-PARTY-LICENSES.txt'), await licenses(modules));

/** Writes CommonJS, because Node takes longer to start its loader of ES modules than to load these files. */
function bundle(target: string, options: BuildOptions) {
  return build({
    ...options,
    // Warnings are errors. For example, a package that is not installed only causes a warning.
    onLog(_level, { message }) {
      throw new Error(message);
    },
    platform: 'node',
    // Even if a user sets NODE_PG_FORCE_NATIVE for another program, pg must not look for its native driver.
    transform: {
      target,
      define: { 'process.env.NODE_PG_FORCE_NATIVE': 'undefined' },
    },
    output: {
      dir: outdir,
      format: 'cjs',
      dynamicImportInCjs: false,
      codeSplitting: { groups },
      chunkFileNames: 'chunks/[name]-[hash].js',
      comments: false,
      minify: { compress: true, mangle: false, codegen: { removeWhitespace: true } },
    },
  });
}

/** The day of the last commit, so that two builds of a commit have the same files. Without git, today. */
function commitDay(): string {
  const log = ['--git-dir=.git', 'log', '-1', '--format=%cs'];
  const { stdout } = spawnSync('git', log, { encoding: 'utf8' });
  return stdout?.trim() || new Date().toISOString().slice(0, 10);
}

/** The license texts of the bundled packages. The licenses require that copies include these texts. */
async function licenses(modules: readonly string[]): Promise<string> {
  const packages = new Set<string>();
  for (const path of modules) {
    const match = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path.replaceAll('\\', '/'));
    if (match?.[1]) packages.add(match[1]);
  }
  const texts = await Promise.all([...packages].sort().map(licenseOf));
  return texts.join(`\n${'-'.repeat(80)}\n\n`);
}

async function licenseOf(directory: string): Promise<string> {
  const { name, version, license } = JSON.parse(await readFile(join(directory, 'package.json'), 'utf8'));
  const title = `${name} ${version} (${license})\n\n`;
  for (const file of ['LICENSE', 'license', 'LICENSE.md', 'LICENSE.txt', 'LICENCE', 'License']) {
    const text = await readFile(join(directory, file), 'utf8').catch(() => undefined);
    if (text !== undefined) return title + text;
  }
  return title;
}
