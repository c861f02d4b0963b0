import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { temporaryFolder } from '../base/temporary-folder.ts';
import { type Api, type Reply, startOwnApi } from '../service/api.ts';
import { useApi } from '../service/use-api.ts';
import { type Ran, type RunOptions, runCommand } from './command.ts';

/** An account and its `agent-trust` command. */
export interface CliAccount {
  readonly key: string;
  run(line: string, options?: Partial<RunOptions>): Promise<Ran>;
  /** Of a file with this text. Default of the line: `--yes`. */
  apply(yaml: string, line?: string, options?: Partial<RunOptions>): Promise<Ran>;
  call(method: string, path: string, body?: object): Promise<Reply>;
}

/** A control plane on a socket, for the tests of a file, and a folder for what its accounts write. */
export function useCliAccounts() {
  const api = useApi(startOwnApi);
  const folder = temporaryFolder();
  let url = '';
  let files = 0;
  beforeAll(async () => {
    url = await api.app.listen({ host: '127.0.0.1', port: 0 });
  });
  afterAll(() => folder.remove());
  const newFile = (ending: string): string => join(folder.path, `${++files}.${ending}`);
  const envOf = (key: string) => ({ AGENT_TRUST_URL: url, AGENT_TRUST_API_KEY: key });
  async function accountAt(at: Api, more: Readonly<Record<string, string>>): Promise<CliAccount> {
    const { key } = await at.createAccount();
    const env = { ...envOf(key), ...more };
    const run: CliAccount['run'] = (line, options = {}) => runCommand(line.split(' '), { env, ...options });
    return {
      key,
      run,
      apply: (yaml, line = '--yes', options = {}) => {
        const file = newFile('yaml');
        writeFileSync(file, yaml);
        return run(`apply -f ${file} ${line}`.trim(), options);
      },
      call: (method, path, body) =>
        at.call({ method, url: `/v1${path}`, key, ...(body === undefined ? {} : { body }) }),
    };
  }
  const newAccount = (more: Readonly<Record<string, string>> = {}) => accountAt(api, more);
  return { newFile, envOf, accountAt, newAccount };
}
