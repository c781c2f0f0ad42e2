"""Brands by host name: pages, cookies, passkeys, mails and accounts."""

import re
from base64 import b64encode
from io import BytesIO

import pytest
import yaml
from sqlalchemy import select

from panel.core.db import session
from panel.models import Account, BrandImage, Passkey
from panel.services import accounts, brands, invitations, sso, team
from panel.services.access import get_for_account
from tests.branding.hosts import set_host
from tests.branding.images import TOO_WIDE, make_png, make_webp
from tests.login.authenticator import Authenticator
from tests.login.passkeys import add_passkey
from tests.support.cast import PASSWORD

PATH = "/api/v1/system/branding"
BRAND_URL = "http://cloud.example.com:8000"


def test_sign_in_page_shows_brand_of_its_host(brand, branded_browser, browser_as):
    page = branded_browser().get("/sign-in").text
    for text in ("· Example Cloud</title>", "Welcome to the example.", "https://example.com/imprint", "/accent/ffcc00"):
        assert text in page
    assert f"/branding/images/{brand.logo}" in page
    other = browser_as().get("/sign-in").text
    assert "· Panel</title>" in other
    assert "Example Cloud" not in other
    unknown = set_host(browser_as(), "evil.example.net")
    assert "· Panel</title>" in unknown.get("/sign-in").text


def test_signed_in_pages_show_brand_without_further_queries(brand, branded_browser, browser_as, queries):
    browser, default = branded_browser("owner"), browser_as("owner")
    counts = []
    for opened in (default, browser, default, browser):
        queries.clear()
        page = opened.get("/instances").text
        counts.append(len(queries))
        assert ("Example Cloud" in page) == (opened is browser)
        assert ("https://example.com/help" in page) == (opened is browser)
        assert not [statement for statement in queries if "brands" in statement]
    assert counts[2] == counts[3]


def test_cookies_belong_to_the_host(brand, branded_browser):
    browser = branded_browser()
    answer = browser.post("/sign-in", data={"email": "owner@example.com", "password": PASSWORD})
    assert answer.status_code == 303
    cookies = answer.headers.getlist("Set-Cookie")
    assert cookies
    assert not [cookie for cookie in cookies if "domain=" in cookie.lower()]
    assert browser.get("/profile").status_code == 200
    assert set_host(browser, "other.example.com").get("/profile").status_code == 303


def test_forms_of_own_host_behind_a_tls_proxy_are_accepted(brand, browser_as, change_config):
    """The proxy speaks http with the panel, so the request's own address differs from the browser's."""
    change_config(public_url="https://panel.example.com")
    browser = set_host(browser_as(), "cloud.example.com")
    del browser.environ_base["HTTP_SEC_FETCH_SITE"]
    form = {"email": "owner@example.com", "password": PASSWORD}
    for origin, status in (("https://cloud.example.com", 303), ("https://evil.example.net", 400)):
        assert browser.post("/sign-in", data=form, headers={"Origin": origin}).status_code == status


def test_passkeys_work_at_their_host_only(brand, branded_browser, browser_as, cast):
    device = add_passkey(branded_browser("owner"), Authenticator(BRAND_URL))
    assert session.scalars(select(Passkey)).one().host == "cloud.example.com"
    at_brand, at_default = branded_browser(), browser_as()
    options = at_brand.post("/sign-in/passkey/options").json
    assert options["rpId"] == "cloud.example.com"
    answer = at_brand.post("/sign-in/passkey", data={"credential": device.get(options)})
    assert answer.headers["Location"] == "/"
    assert ">cloud.example.com</span>" in browser_as("owner").get("/profile/security").text
    options = at_default.post("/sign-in/passkey/options").json
    assert options["rpId"] == "localhost"
    refused = at_default.post("/sign-in/passkey", data={"credential": device.get(options)})
    assert refused.headers["Location"].startswith("/sign-in")
    at_default.post("/sign-in", data={"email": "owner@example.com", "password": PASSWORD})
    page = at_default.get("/sign-in/second-step").text
    assert "Use a passkey" not in page
    assert "Recovery code" in page
    assert at_default.post("/sign-in/passkey/options?second=1").json["allowCredentials"] == []


def test_mails_have_brand_of_the_account(brand, cast, sent_mails, browser_as):
    """Whichever host the request came to: the Host header never gets into a mail."""
    brands.assign(cast.owner, brand.id)
    session.commit()
    browser = set_host(browser_as(), "evil.example.net")
    for email in ("owner@example.com", "outsider@example.com"):
        browser.post("/forgot-password", data={"email": email})
    [branded], [plain] = sent_mails("owner@example.com"), sent_mails("outsider@example.com")
    assert str(branded["From"]) == "Example Cloud <hello@cloud.example.com>"
    assert branded["Message-ID"].endswith("@cloud.example.com>")
    html = branded.get_body(("html",)).get_content()
    assert f"{BRAND_URL}/reset-password/" in branded.get_body(("plain",)).get_content()
    assert f"{BRAND_URL}/branding/images/{brand.logo}" in html
    assert brands.get_all()["cloud.example.com"].accent_colors.light in html
    assert "localhost" not in html
    assert "http://localhost:8000/reset-password/" in plain.get_body(("plain",)).get_content()
    assert "example.net" not in plain.as_string()


def test_invitation_and_new_member_have_brand_of_the_owner(brand, cast, sent_mails):
    brands.assign(cast.owner, brand.id)
    role = team.create_role(get_for_account(cast.owner), name="Ops", permissions=["instances.view"])
    invitations.invite(get_for_account(cast.owner), email="new@example.com", role_id=role.id)
    session.commit()
    [mail] = sent_mails("new@example.com")
    link = re.search(rf"{BRAND_URL}/invitation/(\S+)", mail.get_body(("plain",)).get_content())
    assert invitations.accept(link[1], password=PASSWORD).brand_id == brand.id


def test_new_accounts_have_brand_of_the_request(brand, cast, api_as):
    """That is how a billing system of each brand creates its customers."""
    for host, expected in (("cloud.example.com", brand.id), ("localhost", None)):
        email = f"new@{host}.test"
        body = {"email": email, "password": PASSWORD}
        assert api_as("admin", "POST", "/api/v1/users", json=body, headers={"Host": host}).status_code < 300
        assert session.scalar(select(Account.brand_id).where(Account.email == email)) == expected


def test_sign_in_links_lead_to_brand_of_the_account(brand, cast):
    brands.assign(cast.owner, brand.id)
    assert sso.create_link(cast.owner, expires_in=60, redirect_to=None)["url"].startswith(f"{BRAND_URL}/sso/")
    url = sso.create_link(cast.outsider, expires_in=60, redirect_to=None)["url"]
    assert url.startswith("http://localhost:8000/sso/")


def test_operator_changes_brand_of_an_account(brand, cast, browser_as):
    browser = browser_as("admin")
    path = f"/admin/customers/{cast.owner.id}/settings"
    assert "Example Cloud" in browser.get(path).text
    form = {"email": cast.owner.email, "first_name": "Olga", "timezone": "UTC", "brand_id": brand.id}
    assert browser.post(path, data=form).status_code == 303
    assert accounts.find_by_email("owner@example.com").brand_id == brand.id
    assert browser.post(path, data=form | {"brand_id": cast.owner.id}).status_code == 422
    assert browser.post(path, data=form | {"brand_id": ""}).status_code == 303
    assert accounts.find_by_email("owner@example.com").brand_id is None


def test_documents_keep_the_public_address_doc_06(brand, branded_browser, api_as):
    for path in ("/api/docs/openapi.yaml", "/api/admin/openapi.yaml"):
        document = yaml.safe_load(branded_browser().get(path).text)
        assert [server["url"] for server in document["servers"]] == ["http://localhost:8000"]


def test_api_changes_default_brand_and_those_of_hosts(api_as, browser_as):
    default = api_as("admin", "GET", PATH).json["data"]
    assert (default["id"], default["name"], default["host"]) == (None, "Panel", None)
    logo = b64encode(make_png()).decode()
    answer = api_as("admin", "POST", PATH, json={"name": "Acme", "accent": "#0B7A4B", "logo": logo})
    data = answer.json["data"]
    assert (data["name"], data["accent"]) == ("Acme", "#0b7a4b")
    assert data["logo_url"].startswith("http://localhost:8000/branding/images/")
    assert "· Acme</title>" in browser_as().get("/sign-in").text
    answer = api_as("admin", "POST", PATH, json={"name": "Other", "host": "Other.Example.com"})
    assert answer.json["data"]["url"] == "http://other.example.com:8000"
    assert api_as("admin", "GET", f"{PATH}?host=other.example.com").json["data"]["name"] == "Other"
    assert api_as("admin", "GET", f"{PATH}?host=none.example.com").status_code == 404
    assert api_as("admin", "POST", PATH, json={"logo": None}).json["data"]["logo_url"] is None
    assert session.scalars(select(BrandImage)).all() == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("accent", "red"),
        ("accent", "#fff"),
        ("support_url", "javascript:alert(1)"),
        ("terms_url", "https://user@example.com/"),
        ("imprint_url", "//example.com"),
        ("privacy_url", 'https://example.com/"onclick='),
        ("sender_address", "nobody"),
        ("sender_address", "hello@exämple.com"),
        ("name", "two\nlines"),
        ("host", "localhost"),
        ("host", "exa mple.com"),
        ("logo", "no base64"),
        ("logo", b64encode(b'<svg xmlns="http://www.w3.org/2000/svg"><script/></svg>').decode()),
        ("logo", b64encode(make_png(TOO_WIDE, 1)).decode()),
        ("favicon", b64encode(make_png() + bytes(256 * 1024)).decode()),
    ],
)
def test_unsuitable_values_are_refused(api_as, field, value):
    answer = api_as("admin", "POST", PATH, json={field: value})
    assert answer.status_code == 422
    assert field in answer.json["errors"]


def test_images_are_served_without_rights(brand, browser_as):
    answer = browser_as().get(f"/branding/images/{brand.logo}")
    assert (answer.data, answer.mimetype) == (make_png(), "image/png")
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "immutable" in answer.headers["Cache-Control"]
    assert browser_as().get("/branding/images/0").status_code == 404
    assert browser_as().get("/branding/accent/ffcc00.css").mimetype == "text/css"
    assert browser_as().get("/branding/accent/red;}.css").status_code == 404


def test_pages_add_change_preview_and_delete_a_brand(browser_as, cast):
    browser = browser_as("admin")
    image = lambda content: (BytesIO(content), "logo.png")  # noqa: E731
    form = {"name": "Acme", "host": "acme.example.com", "accent": "#ffffff", "logo": image(make_webp())}
    answer = browser.post("/admin/branding/new", data=form, content_type="multipart/form-data")
    assert answer.status_code == 303
    path = answer.headers["Location"]
    preview = browser.get(f"{path}/preview").text
    assert "Acme" in preview
    assert "/branding/images/" in preview
    form = {"name": "Acme 2", "host": "acme.example.com", "logo": image(b"GIF89a"), "remove_logo": "false"}
    answer = browser.post(path, data=form, content_type="multipart/form-data")
    assert answer.status_code == 422
    assert "Must be a PNG or WebP image." in answer.text
    form = {"name": "Acme 2", "host": "acme.example.com", "remove_logo": "true"}
    assert browser.post(path, data=form).status_code == 303
    row = brands.get(path.rpartition("/")[2])
    assert (row.name, row.logo, row.accent) == ("Acme 2", None, "#ffffff")
    brands.assign(cast.owner, row.id)
    session.commit()
    assert browser.post(f"{path}/delete").status_code == 303
    assert brands.find_by_host("acme.example.com").name == "Panel"
    assert accounts.find_by_email("owner@example.com").brand_id is None


def test_reset_mail_has_brand_of_request_for_accounts_of_none(brand, cast, sent_mails, branded_browser):
    """An account without a brand has the default one, so its mails never lead to another host."""
    branded_browser().post("/forgot-password", data={"email": "outsider@example.com"})
    [mail] = sent_mails("outsider@example.com")
    assert "http://localhost:8000/reset-password/" in mail.get_body(("plain",)).get_content()


def test_customers_order_no_certificate_for_a_brand(brand, cast, api_as):
    from panel.core.errors import Invalid
    from panel.services.certificates import orders

    with pytest.raises(Invalid):
        orders.ensure_domains_available(cast.owner, ["cloud.example.com"])
