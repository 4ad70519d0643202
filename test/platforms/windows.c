/*
 * What tests on Windows need of the system and Bun does not offer.
 *   windows.exe processes             prints the id and the command line of each process
 *   windows.exe console EVENT LINE    runs a command line in a console of its own; sends the event (0 Ctrl-C, 1 Ctrl-Break,
 *                                     2 the console closes) after a line on stdin; prints the exit code
 *   windows.exe hold FILE             holds a file open, without sharing, until stdin ends
 *   powershell.exe … -File X.ps1 …    runs bun with X.ts, and the rest of the command line as it is
 *   schtasks.exe …                    appends its command line to the file that SCHTASKS_CALLS names
 */
#include <windows.h>
#include <psapi.h>
#include <winternl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STOP_MS = 15000 };

/* Reads the command line where the process itself keeps it: Wine 8 does not answer ProcessCommandLineInformation. */
static int command_line(HANDLE process, WCHAR *line, size_t bytes) {
  PROCESS_BASIC_INFORMATION facts;
  PEB peb;
  RTL_USER_PROCESS_PARAMETERS parameters;
  if (NtQueryInformationProcess(process, ProcessBasicInformation, &facts, sizeof facts, NULL) < 0) return 0;
  if (!ReadProcessMemory(process, facts.PebBaseAddress, &peb, sizeof peb, NULL)) return 0;
  if (!ReadProcessMemory(process, peb.ProcessParameters, &parameters, sizeof parameters, NULL)) return 0;
  if (parameters.CommandLine.Length < bytes) bytes = parameters.CommandLine.Length;
  return ReadProcessMemory(process, parameters.CommandLine.Buffer, line, bytes, NULL) ? bytes / sizeof(WCHAR) : 0;
}

static int processes(void) {
  static DWORD ids[4096];
  static WCHAR wide[32768];
  static char line[98304];
  DWORD size;
  EnumProcesses(ids, sizeof ids, &size);
  for (DWORD i = 0; i < size / sizeof *ids; i++) {
    HANDLE process = OpenProcess(PROCESS_QUERY_INFORMATION | PROCESS_VM_READ | SYNCHRONIZE, FALSE, ids[i]);
    if (!process) continue;
    int length = command_line(process, wide, sizeof wide);
    int bytes = WideCharToMultiByte(CP_UTF8, 0, wide, length, line, sizeof line, NULL, NULL);
    printf("%lu %.*s\n", ids[i], bytes, line);
    CloseHandle(process);
  }
  return 0;
}

/*
 * Delivers the event as the console does, by a thread in the process: GenerateConsoleCtrlEvent knows no closing, and Wine 8
 * refuses it for Ctrl-Break.
 */
static int console(DWORD event, char *line) {
  STARTUPINFOA start = { sizeof start };
  PROCESS_INFORMATION child;
  DWORD code;
  start.dwFlags = STARTF_USESTDHANDLES;
  start.hStdInput = INVALID_HANDLE_VALUE;
  start.hStdOutput = GetStdHandle(STD_OUTPUT_HANDLE);
  start.hStdError = GetStdHandle(STD_ERROR_HANDLE);
  SetHandleInformation(start.hStdOutput, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT);
  SetHandleInformation(start.hStdError, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT);
  HANDLE input = GetStdHandle(STD_INPUT_HANDLE);
  FreeConsole();
  if (!AllocConsole()) return fprintf(stderr, "no console: %lu\n", GetLastError()), 1;
  SetConsoleCtrlHandler(NULL, FALSE);
  if (!CreateProcessA(NULL, line, NULL, NULL, TRUE, 0, NULL, NULL, &start, &child))
    return fprintf(stderr, "cannot start: %lu\n", GetLastError()), 1;
  char byte;
  DWORD read;
  while (ReadFile(input, &byte, 1, &read, NULL) && read && byte != '\n') {}
  LPTHREAD_START_ROUTINE deliver = (void *)GetProcAddress(GetModuleHandleA("kernelbase"), "CtrlRoutine");
  HANDLE sent = deliver ? CreateRemoteThread(child.hProcess, NULL, 0, deliver, (void *)(ULONG_PTR)event, 0, NULL) : NULL;
  if (!sent) fprintf(stderr, "not sent: %lu\n", GetLastError());
  if (WaitForSingleObject(child.hProcess, STOP_MS) != WAIT_OBJECT_0) TerminateProcess(child.hProcess, 99);
  WaitForSingleObject(child.hProcess, STOP_MS);
  GetExitCodeProcess(child.hProcess, &code);
  fprintf(stderr, "exit code %lu\n", code);
  return 0;
}

static int hold(const char *file) {
  HANDLE held = CreateFileA(file, GENERIC_READ, 0, NULL, OPEN_EXISTING, 0, NULL);
  if (held == INVALID_HANDLE_VALUE) return fprintf(stderr, "cannot open: %lu\n", GetLastError()), 1;
  puts("held");
  fflush(stdout);
  while (getchar() != EOF) {}
  return 0;
}

/* Passes the exit code on; the handles of the standard streams are inherited. */
static int powershell(void) {
  static WCHAR script[32768], line[65536];
  PROCESS_INFORMATION child;
  STARTUPINFOW start = { sizeof start };
  DWORD code = 1;
  WCHAR *file = wcsstr(GetCommandLineW(), L" -File ");
  if (!file) return fprintf(stderr, "no -File\n"), 2;
  file += 7;
  int quoted = *file == '"';
  WCHAR *end = wcsstr(file, L".ps1");
  if (!end) return fprintf(stderr, "no .ps1 file\n"), 2;
  wcsncpy(script, file + quoted, end - file - quoted);
  swprintf(line, 65536, L"bun.exe \"%ls.ts\"%ls", script, end + 4 + quoted);
  if (!CreateProcessW(NULL, line, NULL, NULL, TRUE, 0, NULL, NULL, &start, &child))
    return fprintf(stderr, "cannot start: %lu\n", GetLastError()), 1;
  WaitForSingleObject(child.hProcess, INFINITE);
  GetExitCodeProcess(child.hProcess, &code);
  return code;
}

static int schtasks(void) {
  FILE *calls = _wfopen(_wgetenv(L"SCHTASKS_CALLS"), L"a");
  if (!calls) return fprintf(stderr, "no file for the calls\n"), 1;
  fprintf(calls, "%ls\n", GetCommandLineW());
  return fclose(calls);
}

int main(int count, char **words) {
  if (strstr(words[0], "powershell")) return powershell();
  if (strstr(words[0], "schtasks")) return schtasks();
  if (count == 2 && !strcmp(words[1], "processes")) return processes();
  if (count == 4 && !strcmp(words[1], "console")) return console(atoi(words[2]), words[3]);
  if (count == 3 && !strcmp(words[1], "hold")) return hold(words[2]);
  return 2;
}
