import { useUntilEnd } from '../base/use.ts';
import { type Api, startApi } from './api.ts';
import { startTestSidecar, type TestSidecar, type TestSidecarOptions } from './sidecar.ts';

/** As `useUntilEnd`, of what has a `close`. */
export const useStarted = <Started extends { close(): Promise<void> }>(
  start: () => Promise<Started>,
): Started => useUntilEnd(start, (started) => started.close());

export const useApi = (start: () => Promise<Api> = startApi): Api => useStarted(start);

/** With its folder, which goes with it. */
export const useSidecar = (options: () => TestSidecarOptions): TestSidecar =>
  useStarted(async () => {
    const sidecar = await startTestSidecar(options());
    const close = async () => {
      await sidecar.close();
      sidecar.removeFolder();
    };
    return { ...sidecar, close };
  });
