// Reads files that the build writes to dist/. In an executable that contains Node, they are assets with the same names.

/** `node:sea` with a function that the type declarations of Node 20 do not have. */
type SeaWithKeys = typeof import('node:sea') & { getAssetKeys(): string[] };

/** Whether the program runs as one executable file that contains Node. */
export const isSingleExecutable = (): boolean => process.getBuiltinModule('node:sea').isSea();

/** Reads a file of the build as text. `directory` is the path of dist/, and `name` is relative to it. */
export function readBundledText(directory: string, name: string): string {
  if (isSingleExecutable()) return process.getBuiltinModule('node:sea').getAsset(name, 'utf8');
  return process.getBuiltinModule('node:fs').readFileSync(`${directory}/${name}`, 'utf8');
}

/** The names of the files in a folder of dist/. @throws a system error if it is missing, because the build has not run */
export function listBundledFiles(directory: string, folder: string): string[] {
  if (!isSingleExecutable()) return process.getBuiltinModule('node:fs').readdirSync(`${directory}/${folder}`);
  const keys = (process.getBuiltinModule('node:sea') as SeaWithKeys).getAssetKeys();
  return keys.filter((key) => key.startsWith(`${folder}/`)).map((key) => key.slice(folder.length + 1));
}
