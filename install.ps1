# Installs svc on Windows: downloads the release file, checks its SHA-256, and adds the folder to the PATH of the user.
#
#   irm URL/install.ps1 | iex
#
# SVC_RELEASES is the URL of the folder with the release files. SVC_INSTALL_DIR is the folder to install into; the default is
# %LOCALAPPDATA%\svc.
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

# In the install.ps1 of a release, bun run release sets this to the URL of the latest release.
$published = ''

function Install-Svc {
  $releases = $published
  if ($env:SVC_RELEASES) { $releases = $env:SVC_RELEASES }
  if (-not $releases) { throw 'install.ps1: svc has no published releases yet: set SVC_RELEASES to the URL of the folder with the release files' }
  if (-not [Environment]::Is64BitOperatingSystem) { throw 'install.ps1: svc needs a 64-bit Windows' }

  $name = 'svc-windows-x64.exe'
  $folder = $env:SVC_INSTALL_DIR
  if (-not $folder) { $folder = Join-Path $env:LOCALAPPDATA 'svc' }
  New-Item -ItemType Directory -Force -Path $folder | Out-Null
  $program = Join-Path $folder 'svc.exe'
  $new = Join-Path $folder "svc.$PID.new"

  # Windows PowerShell 5.1 may be set to older versions of TLS.
  [Net.ServicePointManager]::SecurityProtocol = [Net.ServicePointManager]::SecurityProtocol -bor [Net.SecurityProtocolType]::Tls12
  try {
    Write-Host "downloading $name"
    Invoke-WebRequest -UseBasicParsing -Uri "$releases/$name" -OutFile $new
    $answer = (Invoke-WebRequest -UseBasicParsing -Uri "$releases/SHA256SUMS").Content
    if ($answer -is [byte[]]) { $answer = [Text.Encoding]::UTF8.GetString($answer) }
    $line = $answer -split "`n" | Where-Object { $_ -match "^[0-9a-f]{64}  $([regex]::Escape($name))\s*$" }
    if (-not $line) { throw "install.ps1: SHA256SUMS does not name $name" }
    $expected = ([string]$line).Substring(0, 64)
    $actual = (Get-FileHash -Algorithm SHA256 -Path $new).Hash
    if ($actual -ne $expected) { throw "install.ps1: the SHA-256 of $name differs from SHA256SUMS; nothing was installed" }
    # A program that runs cannot be replaced, but it can be renamed.
    if (Test-Path $program) {
      Remove-Item -Force -ErrorAction SilentlyContinue "$program.old"
      Move-Item -Force $program "$program.old"
    }
    Move-Item -Force $new $program
  } finally {
    if (Test-Path $new) { Remove-Item -Force $new }
  }
  Remove-Item -Force -ErrorAction SilentlyContinue "$program.old"

  Write-Host "installed ${program}: $(& $program --version)"
  # The stored value, not the one of this process: it has the entries of the user alone, with their variables unexpanded.
  $key = [Microsoft.Win32.Registry]::CurrentUser.CreateSubKey('Environment')
  $path = [string]$key.GetValue('Path', '', 'DoNotExpandEnvironmentNames')
  if (($path -split ';') -notcontains $folder) {
    $key.SetValue('Path', (@($path.TrimEnd(';'), $folder) | Where-Object { $_ }) -join ';', 'ExpandString')
    # Setting a variable through .NET tells other programs of the change.
    [Environment]::SetEnvironmentVariable('SVC_PATH_CHANGED', $null, 'User')
    Write-Host "$folder is on your PATH in terminals that you open from now on"
  }
  $key.Close()
  if (($env:Path -split ';') -notcontains $folder) { $env:Path = "$env:Path;$folder" }
  Write-Host 'try it: svc serve --demo'
}

Install-Svc
