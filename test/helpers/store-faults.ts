import { type FileSystem, realFileSystem } from '../../src/system/file-system.ts';

/** Runs before each call of the file system, or after the call if it is `close`. If it throws, the call fails. */
export type Intercept = (name: string, path: string) => void | Promise<void>;

/** The real file system with an interceptor. */
export function interceptFiles(intercept: Intercept): FileSystem {
  return {
    ...interceptMethods(realFileSystem, intercept),
    async open(path, mode) {
      await intercept(`open ${mode}`, path);
      const file = await realFileSystem.open(path, mode);
      return {
        ...interceptMethods(file, (name) => intercept(name, path)),
        // Close first, because the file must be closed even if the interceptor throws.
        async close() {
          await file.close();
          await intercept('close', path);
        },
      };
    },
  };
}

/** A copy of an object of asynchronous methods that calls `intercept` before each call. */
function interceptMethods<Methods extends object>(methods: Methods, intercept: Intercept): Methods {
  const intercepted = Object.entries(methods).map(([name, method]) => [
    name,
    async (...args: [string, ...unknown[]]) => {
      await intercept(name, args[0]);
      return method(...args);
    },
  ]);
  return Object.fromEntries(intercepted);
}

/** A system error. `errno -122` is the error of a full quota as Node 20 reports it on Linux: without a name. */
export function errno(code: string): Error {
  if (code !== 'errno -122') return Object.assign(new Error(`${code}: injected`), { code });
  const name = 'Unknown system error -122';
  return Object.assign(new Error(`${name}: ${name}, write`), { code: name, errno: -122, syscall: 'write' });
}
