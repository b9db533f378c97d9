import type { Api } from './api.ts';

/** What every view can use. */
export type PageContext = Pick<Api, 'get' | 'send'> & {
  /** Lets a screen reader read a text when it has finished what it is reading. */
  announce(text: string): void;
};

export type View = {
  /** Fills the section of the view. The signal is aborted when the view or the tab is hidden. */
  show(signal: AbortSignal): void;
};

/** The address of the service, without a slash at the end. A reverse proxy may serve it below a path. */
export const serverUrl = (): string => new URL('.', location.href).href.slice(0, -1);
