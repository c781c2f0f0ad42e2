# Turns a NoCloud seed into calls of the functions in network.sh and first-boot.sh, one a line, every word quoted.
#
# $meta: {"instance-id", "local-hostname"}. $network: network-config version 2. $user: "#cloud-config" and a line break
# before the JSON, or a script that begins with "#!". What is wrong in one section does not spoil the others.

def list: if . == null then [] elif type == "array" then . else [.] end;
def yes: . == true or (type == "string" and (ascii_downcase | IN("true", "yes", "on", "1")));
def octal: if . < 8 then tostring else (. / 8 | floor | octal) + (. % 8 | tostring) end;
def one_line: tostring | gsub("[\n:]"; " ");
def document: if test("\\S") then try fromjson catch {"not JSON": true} else {} end;
def section(name; calls): try calls catch ["trouble", "\(name): \(.)"];

def nics:
  (.network // .).ethernets // error("none, so every card asks for an address")
  | to_entries[] | .key as $name | .value
  | ["nic", $name, (.match.macaddress // .macaddress // "" | ascii_downcase)],
    (.mtu // empty | ["mtu", .]),
    (if .["accept-ra"] == false then ["no_router_advertisements"] else empty end),
    (.addresses | list[] | ["address", if type == "object" then keys[0] else . end]),
    ((.gateway4, .gateway6) // empty | ["route", "default", ., ""]),
    (.routes | list[] | ["route", .to // "default", .via // "", .metric // ""]),
    (.nameservers.addresses | list[] | ["resolver", .]),
    (.nameservers.search | list | if . == [] then empty else ["search_domains", join(" ")] end),
    (if .dhcp4 | yes then ["dhcp"] else empty end);

def file:
  ["file", .path, (.permissions // "0644" | if type == "number" then octal else . end), .owner // "root:root",
   (.append | yes | tostring), .encoding // "", .content // ""];

def user:
  ["account", .name, (.gecos // "" | one_line), (.homedir // "" | one_line), (.shell // "" | one_line)],
  (.groups | if type == "string" then [splits(" *, *")] else list end | .[] as $group | ["member", $group]),
  (.ssh_authorized_keys | list[] | ["key", .]),
  (.plain_text_passwd // empty | ["own_password", tostring, "text"]),
  (.hashed_passwd // .passwd // empty | ["own_password", tostring, "hash"]),
  (if .lock_passwd == null or (.lock_passwd | yes) then ["lock"] else empty end);

def is_hash: test("^\\$(1|2a|2y|5|6|y)\\$.+\\$");
def passwords:
  (.password // empty | {name: "root", password: tostring}),
  (.chpasswd.list | if type == "string" then split("\n") else list end | .[] | select(test("^[^:]+:."))
   | {name: sub(":.*"; ""), password: sub("^[^:]*:"; "")}),
  (.chpasswd.users | list[] | select(.password and .type != "RANDOM") | {name, type, password: (.password | tostring)})
  | ["password", .name, .password, .type // if .password | is_hash then "hash" else "text" end];

# A machine restored from a backup of itself: cloud-init leaves its accounts and its way to sign in as they are, too.
def keeps_accounts: .users == [] and .ssh_pwauth == "unchanged";

def command: if type == "array" then map(tostring) | @sh else tostring end;

def cloud_config:
  (keys - ["chpasswd", "disable_root", "fqdn", "hostname", "manage_etc_hosts", "password", "runcmd",
           "ssh_authorized_keys", "ssh_pwauth", "timezone", "users", "write_files"]
   | .[] | ["trouble", "\(.): not understood by this image"]),
  section("timezone"; .timezone // empty | ["timezone", .]),
  section("ssh_authorized_keys"; ["account", "root"], (.ssh_authorized_keys | list[] | ["key", .])),
  section("users"; .users | list[] | select(type == "object" and .name) | user),
  section("passwords"; passwords),
  section("write_files"; .write_files | list[] | file),
  (if keeps_accounts then empty else ["sign_in", (.ssh_pwauth | yes | tostring), (.disable_root | yes | tostring)] end),
  section("runcmd"; .runcmd | list[] | ["run", command]);

($meta | document) as $m
| (if $user | startswith("#cloud-config") then $user | sub("^[^\n]*\n?"; "") | document else {} end) as $u
| section("hostname"; $u.fqdn // $u.hostname // $m["local-hostname"] // empty | ["name", .]),
  (try ($network | document | nics) catch (["trouble", "network-config: \(.)"], ["dhcp_everywhere"])),
  (["new_instance", $m["instance-id"] // "none"] + if $u | keeps_accounts then ["keep_accounts"] else [] end),
  section("user-data"; $u | cloud_config),
  (if $user | startswith("#!") then ["script", $user] else empty end),
  ["ready"]
| map(tostring) | @sh
| if startswith("'new_instance'") then "\(.) || return 0" else . end
