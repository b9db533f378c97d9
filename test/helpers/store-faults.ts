import { type Files, type OpenFile, realFiles } from '../../src/store/files.ts';

/** Called before a call goes to the real file system; throws where that is to fail. */
export type Intercept = (name: string, path: string) => void | Promise<void>;

/** The real file system, with something before each call. `maxWrite` is the most bytes that one write takes. */
export function interceptFiles(intercept: Intercept, maxWrite = Number.POSITIVE_INFINITY): Files {
  const on =
    <Args extends [string, ...unknown[]], Result>(name: string, call: (...args: Args) => Promise<Result>) =>
    async (...args: Args): Promise<Result> => {
      await intercept(name, args[0]);
      return call(...args);
    };
  return {
    open: async (path, how) => {
      await intercept(`open ${how}`, path);
      return interceptFile(await realFiles.open(path, how), (name) => intercept(name, path), maxWrite);
    },
    rename: on('rename', realFiles.rename),
    link: on('link', realFiles.link),
    unlink: on('unlink', realFiles.unlink),
    mkdir: on('mkdir', realFiles.mkdir),
    readdir: on('readdir', realFiles.readdir),
    version: on('version', realFiles.version),
    syncDirectory: on('syncDirectory', realFiles.syncDirectory),
  };
}

function interceptFile(file: OpenFile, intercept: (name: string) => unknown, maxWrite: number): OpenFile {
  return {
    async read(...part) {
      await intercept('read');
      return file.read(...part);
    },
    async write(buffer, offset, length, position) {
      await intercept('write');
      return file.write(buffer, offset, Math.min(length, maxWrite), position);
    },
    async datasync() {
      await intercept('datasync');
      return file.datasync();
    },
    async truncate(length) {
      await intercept('truncate');
      return file.truncate(length);
    },
    async status() {
      await intercept('status');
      return file.status();
    },
    // A test's own files are closed however it ends.
    async close() {
      await file.close();
      await intercept('close');
    },
  };
}

export const errno = (code: string): Error => Object.assign(new Error(`${code}: planted`), { code });
